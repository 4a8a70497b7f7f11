"""Sessions on the wire: how one ends, and how they are searched."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from motet.service.wire.schemas import Body, Id

Ending = Literal["success", "errored", "interrupted"]
Texts = Annotated[list[str], Field(max_length=1000)]


class FinishReason(Body):
    type: Ending = "success"


class FinishSession(Body):
    """Whatever else a client says of its end is not kept."""

    reason: FinishReason = FinishReason()
    detail: str | None = None


class SessionProject(Body):
    project_id: Id


class SearchOwner(Body):
    type: Literal["own", "accessible", "user"] = "own"
    owner_urns: Texts = []


class SearchStatus(Body):
    type: Literal["active", "cancelled", "failed", "client_finished"]
    reasons: list[Ending] | None = None


class SearchCursor(Body):
    last_created_at: AwareDatetime
    last_session_id: str


class SearchSessions(Body):
    session_id: str | None = None
    project_ids: Texts | None = None
    user_metadata: dict[str, str] = {}
    display_name: str | None = None
    owner: SearchOwner = SearchOwner()
    statuses: list[SearchStatus] | None = None
    limit: int = Field(default=50, ge=1, le=200)
    cursor: SearchCursor | None = None


class SessionSummary(Body):
    session_id: str
    created_at: datetime
    owner: str
    project_id: str
    status: dict[str, Any] | None  # None: neither finished nor heard of lately
    checkpoints_count: int
    checkpoint_storage_bytes: int
    display_name: str | None
    user_metadata: dict[str, str]
