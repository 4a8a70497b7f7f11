"""Which of a tenant's sessions match a search, newest first, page by page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from motet.service.http.registry import Registry, Session, now
from motet.service.wire.records import text_values
from motet.service.wire.visits import SearchCursor, SearchSessions, SearchStatus, SessionSummary

HEARD_OF = timedelta(minutes=2)  # a client beats every ten seconds


def search(registry: Registry, tenant: str, asked: SearchSessions) -> tuple[list[SessionSummary], SearchCursor | None]:
    """One page, and where the next one starts; None: there is none."""
    own = [session for session in registry.sessions.values() if session.tenant == tenant and _matches(session, asked)]
    own.sort(key=_age, reverse=True)
    if asked.cursor is not None:
        last = (asked.cursor.last_created_at, asked.cursor.last_session_id)
        own = [session for session in own if _age(session) < last]
    shown = own[: asked.limit]
    more = len(own) > len(shown)
    cursor = SearchCursor(last_created_at=shown[-1].created, last_session_id=shown[-1].id) if more else None
    return [_summary(registry, session) for session in shown], cursor


def _age(session: Session) -> tuple[Any, str]:
    return session.created, session.id


def _matches(session: Session, asked: SearchSessions) -> bool:
    metadata = text_values(session.metadata)
    return (
        _is_named(session, asked)
        and (asked.project_ids is None or session.project in asked.project_ids)
        and all(metadata.get(key) == value for key, value in asked.user_metadata.items())
        and (asked.owner.type != "user" or session.tenant in asked.owner.owner_urns)
        and (asked.statuses is None or any(_stands_at(session, status) for status in asked.statuses))
    )


def _is_named(session: Session, asked: SearchSessions) -> bool:
    """By its id or by words of its display name: either will do."""
    if asked.session_id is None and asked.display_name is None:
        return True
    name = (session.display_name or "").lower()
    words = (asked.display_name or "").lower().split()
    return session.id == asked.session_id or (bool(words) and all(word in name for word in words))


def _stands_at(session: Session, status: SearchStatus) -> bool:
    if status.type == "client_finished":
        return session.finished and (status.reasons is None or session.ending in status.reasons)
    return status.type == "active" and not session.finished and _heard_of(session)


def _heard_of(session: Session) -> bool:
    return now() - session.seen < HEARD_OF


def _status(session: Session) -> dict[str, Any] | None:
    if session.finished:
        return {"type": "client_finished", "reason": {"type": session.ending}}
    return {"type": "active"} if _heard_of(session) else None


def _summary(registry: Registry, session: Session) -> SessionSummary:
    saved = [one for one in registry.checkpoints_of(session.tenant) if one.run.session == session.id]
    return SessionSummary(
        session_id=session.id,
        created_at=session.created,
        owner=session.tenant,
        project_id=session.project,
        status=_status(session),
        checkpoints_count=len(saved),
        checkpoint_storage_bytes=sum(one.size for one in saved),
        display_name=session.display_name,
        user_metadata=text_values(session.metadata),
    )
