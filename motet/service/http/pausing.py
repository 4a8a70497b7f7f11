"""Why a result is not there yet, in the SDK's words: it shows the reason to whoever waits.

`paused_rate_limit` is never said: a tenant's pace is kept before a request is accepted, and holds nothing back later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from motet.service.http.futures import Promise
from motet.service.http.reading import EngineReading


@dataclass(frozen=True)
class QueueState:
    """`reason` is for people."""

    state: Literal["active", "paused_capacity"]
    reason: str | None = None


async def queue_state(promise: Promise, reading: EngineReading) -> QueueState:
    """Asks the engine, which takes a second at most."""
    await reading.refresh()
    if not reading.up:
        return QueueState("paused_capacity", "the engine is being started again, or very busy; nothing is lost")
    waiting = int(reading.numbers.whole.get("sample_requests_waiting", 0))
    if promise.cancellable and waiting:  # only sampling can be cancelled
        return QueueState("paused_capacity", f"{waiting} sampling requests wait until there is room for their keys")
    return QueueState("active")
