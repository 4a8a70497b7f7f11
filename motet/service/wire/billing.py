"""Use on the wire: hourly events, and what is stored now. Nothing has a price here."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from motet.errors import BadRequest
from motet.service.wire.schemas import Body

GIGABYTE = 1e9
LONGEST_WINDOW = timedelta(days=14)


class Training(Body):
    type: Literal["training"] = "training"
    token_count: int


class Prefill(Body):
    type: Literal["sampling_prefill"] = "sampling_prefill"
    cached: bool
    token_count: int


class Sampled(Body):
    type: Literal["sampling_sample"] = "sampling_sample"
    token_count: int


class Checkpoints(Body):
    type: Literal["checkpoint"] = "checkpoint"
    count: int


class Storage(Body):
    type: Literal["storage"] = "storage"
    free: bool = True
    gigabyte_hours: float


EventInfo = Annotated[Training | Prefill | Sampled | Checkpoints | Storage, Field(discriminator="type")]


class UsageEvent(Body):
    bucket_start: datetime
    bucket_end: datetime
    base_model: str
    user_id: str
    session_id: str | None
    project_id: str | None
    event_info: EventInfo


class StorageItem(Body):
    project_id: str
    org_user_urn: str
    checkpoint_count: int
    size_bytes: int
    size_gigabytes: float


def read_window(starting_on: AwareDatetime, ending_before: AwareDatetime, present: datetime) -> None:
    """BadRequest where a window of use is none: whole hours, from the past, of fourteen days at most."""
    if any(time.timestamp() % 3600 for time in (starting_on, ending_before)):
        raise BadRequest("starting_on and ending_before must be whole hours (UTC)")
    if not starting_on < ending_before <= starting_on + LONGEST_WINDOW:
        raise BadRequest("ending_before must come after starting_on, by fourteen days at most")
    if starting_on > present:
        raise BadRequest("starting_on is in the future")


def event_info(measure: str, amount: float) -> Any:
    """What a counter says, in the API's words."""
    match measure:
        case "trained":
            return Training(token_count=round(amount))
        case "prompted" | "prompted_cached":
            return Prefill(cached=measure == "prompted_cached", token_count=round(amount))
        case "sampled":
            return Sampled(token_count=round(amount))
        case "checkpoints":
            return Checkpoints(count=round(amount))
        case _:
            return Storage(gigabyte_hours=amount / GIGABYTE)
