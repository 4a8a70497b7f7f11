"""Which sampling requests have ended, for clients that ask for many at once and fetch each result afterwards.

A target is one client of a sampler: `seq_id` counts from 1e9 * k for the k-th. Numbers grow from start to start of the
server, so that a client that comes back with an old one is told everything again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from dataclasses import dataclass, field

CLIENT = 1_000_000_000  # seq_ids of one client of a sampler


@dataclass(frozen=True)
class Target:
    """One client of one sampler."""

    sampler: str
    client: int


@dataclass(frozen=True)
class Completion:
    """A request that has ended."""

    number: int
    request_id: str
    size: int  # bytes of its result
    failed: bool


@dataclass(eq=False)
class _Log:
    """What has ended and was not seen yet, by request id, in the order of its numbers; and who waits for more."""

    ended: dict[str, Completion] = field(default_factory=dict)
    more: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0


class Completions:
    """The logs of all targets. A log is as long as the results that are kept, and what its client has seen goes."""

    def __init__(self) -> None:
        self._logs: dict[Target, _Log] = {}
        self._number = time.time_ns() // 1000
        self._joined = secrets.randbelow(CLIENT // 2)  # so that clients of an earlier server have other numbers

    @property
    def targets(self) -> int:
        return len(self._logs)

    def join(self) -> int:
        """A number for one more client of a sampler; never 0, which is the first client's, nor one given before."""
        self._joined += 1
        return self._joined

    def note(self, request_id: str, size: int, failed: bool) -> None:
        """A request has ended. Those that are no sampling requests are not noted."""
        if (target := target_of(request_id)) is None:
            return
        log = self._logs.setdefault(target, _Log())
        self._number += 1
        log.ended[request_id] = Completion(self._number, request_id, size, failed)
        log.more.set()

    def forget(self, request_id: str) -> None:
        """A result is not kept any more."""
        target = target_of(request_id)
        if target is not None and target in self._logs:
            self._logs[target].ended.pop(request_id, None)
            self._sweep(target)

    async def after(self, target: Target, number: int, seconds: float) -> list[Completion]:
        """Everything with a larger number, oldest first; waits for the first of them. Older ones are seen, and go."""
        log = self._logs.setdefault(target, _Log())
        for seen in [one.request_id for one in log.ended.values() if one.number <= number]:
            del log.ended[seen]
        log.waiting += 1
        try:
            if not log.ended and seconds > 0:
                log.more.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(log.more.wait(), seconds)
            return list(log.ended.values())
        finally:
            log.waiting -= 1
            self._sweep(target)

    def close(self) -> None:
        """The server stops: whoever waits is answered now."""
        for log in self._logs.values():
            log.more.set()

    def _sweep(self, target: Target) -> None:
        log = self._logs.get(target)
        if log is not None and not log.ended and not log.waiting:
            del self._logs[target]


def target_of(request_id: str) -> Target | None:
    """Whose request SESSION:sample:N:SEQ is; None for one of a run."""
    sampler, _, number = request_id.rpartition(":")
    return Target(sampler, int(number) // CLIENT) if ":sample:" in sampler else None
