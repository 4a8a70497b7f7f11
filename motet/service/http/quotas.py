"""What one tenant may have at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from motet.engine.types import MOST_PRIORITY
from motet.errors import BadConfig, BadRequest

GIB = 1024**3

Holding = Literal["runs", "resident_adapters", "stored_bytes"]  # what a tenant keeps until it lets go
REMEDY: Mapping[Holding, str] = {
    "runs": "finish a session",
    "resident_adapters": "finish a session, or delete sampler checkpoints",
    "stored_bytes": "delete checkpoints",
}


class OverQuota(BadRequest):
    """A tenant's quota is used up, and waiting will not change that."""


@dataclass(frozen=True)
class Quotas:
    """What one tenant may have. Each is above what a single large client needs, and below what a server holds."""

    __pydantic_config__ = {"extra": "forbid"}

    runs: int = 1024  # in sessions that are not finished
    resident_adapters: int = 4096  # runs and versions that the engine has in hand
    queued_tokens: int = 8 * 1024**2  # of requests on their way
    queued_requests: int = 4096
    requests_per_second: float = 5000.0
    stored_bytes: int = 256 * GIB  # all checkpoints
    priority: float = 1.0  # of device time against other tenants, while both want it; a run made later has a new one

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 < getattr(self, field.name) < float("inf"):
                raise BadConfig(f"the quota {field.name} must be a number above 0, not {getattr(self, field.name)}")
        if not 1 / MOST_PRIORITY <= self.priority <= MOST_PRIORITY:
            raise BadConfig(f"the quota priority must be 1/{MOST_PRIORITY} to {MOST_PRIORITY}, not {self.priority}")


QUOTA_NAMES = tuple(field.name for field in fields(Quotas))


def read_quota(text: str) -> tuple[str, float | None]:
    """`name=value` as people write it; None for `name=default`. BadConfig."""
    name, _, value = text.partition("=")
    if name not in QUOTA_NAMES:
        raise BadConfig(f"there is no quota {name!r}: choose one of {', '.join(QUOTA_NAMES)}, and write NAME=VALUE")
    if value == "default":
        return name, None
    try:
        number = float(value)
    except ValueError:
        raise BadConfig(f"{text}: write a number, or `default`") from None
    whole: dict[str, Any] = {name: int(number) if number.is_integer() else number}
    replace(Quotas(), **whole)  # BadConfig where it cannot be one
    return name, whole[name]
