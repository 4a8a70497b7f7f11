"""What each tenant has used, in hours: tokens trained, prompted and sampled, checkpoints made, bytes kept.

Counters, not a bill. Written down every few seconds and when the server stops: `kill -9` takes that much at most.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from motet.service.catalog.changes import Add, Remove, Set, Statement, Values
from motet.service.http.registry import now

HOUR = timedelta(hours=1)
KEPT = timedelta(days=35)
Measure = Literal["trained", "prompted", "prompted_cached", "sampled", "checkpoints", "byte_hours"]


@dataclass(frozen=True)
class Bucket:
    """One tenant's hour of one session; what belongs to no session is under None."""

    tenant: str
    start: datetime
    session: str | None
    measure: Measure

    @property
    def key(self) -> Values:
        """Its row's."""
        hour = self.start.replace(tzinfo=None)
        return {"tenant": self.tenant, "hour": hour, "session": self.session or "", "measure": self.measure}


@dataclass(frozen=True)
class Used:
    """How much of something, in which hour."""

    bucket: Bucket
    amount: float


@dataclass
class _Stored:
    """A tenant's bytes, and since when they have been counted."""

    bytes: int
    since: datetime


class Usage:
    """Notes what was used and tells it again. `clock` is for tests."""

    def __init__(self, clock: Callable[[], datetime] = now) -> None:
        self._clock = clock
        self._amounts: dict[Bucket, float] = defaultdict(float)
        self._stored: dict[str, _Stored] = {}
        self._swept = clock()
        self._written: dict[Bucket, float] = {}  # as the catalog has it

    def note(self, tenant: str, session: str | None, measure: Measure, amount: float) -> None:
        """So much was used just now."""
        if amount > 0:
            self._amounts[Bucket(tenant, hour_of(self._clock()), session, measure)] += amount
        if self._clock() - self._swept > HOUR:
            self._sweep()

    def keep(self, tenant: str, change: int) -> None:
        """A tenant's checkpoints have grown by so many bytes, or shrunk."""
        self._settle(tenant)
        self._stored.setdefault(tenant, _Stored(0, self._clock())).bytes += change

    def stored_bytes(self, tenant: str) -> int:
        return self._stored[tenant].bytes if tenant in self._stored else 0

    def between(self, tenant: str, start: datetime, end: datetime) -> list[Used]:
        """What a tenant used in the hours of [start, end), oldest first, the most of it first within an hour."""
        self._settle(tenant)
        found = [
            Used(bucket, amount)
            for bucket, amount in self._amounts.items()
            if bucket.tenant == tenant and start <= bucket.start < end
        ]
        return sorted(found, key=lambda used: (used.bucket.start, -used.amount))

    def load(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """What an earlier server wrote down."""
        for row in rows:
            start = row["hour"].replace(tzinfo=UTC)
            bucket = Bucket(row["tenant"], start, row["session"] or None, row["measure"])
            self._amounts[bucket] = self._written[bucket] = row["amount"]

    async def save(self, write: Callable[..., Awaitable[None]]) -> None:
        """Write down what has changed since the last time. StorageFault: nothing was, and the next time tries again."""
        for tenant in self._stored:
            self._settle(tenant)
        changed = {bucket: amount for bucket, amount in self._amounts.items() if self._written.get(bucket) != amount}
        gone = [bucket for bucket in self._written if bucket not in self._amounts]
        statements: list[Statement] = [Remove("usage", bucket.key) for bucket in gone]
        for bucket, amount in changed.items():
            known = bucket in self._written
            values = {"amount": amount}
            statements.append(Set("usage", bucket.key, values) if known else Add("usage", {**bucket.key, **values}))
        if statements:
            await write(*statements)
        for bucket in gone:
            del self._written[bucket]
        self._written |= changed

    def _settle(self, tenant: str) -> None:
        """Write down what was kept until now."""
        stored, present = self._stored.get(tenant), self._clock()
        if stored is None:
            return
        for start, until in _hours(stored.since, present):
            hours = (until - start) / HOUR
            self._amounts[Bucket(tenant, hour_of(start), None, "byte_hours")] += stored.bytes * hours
        stored.since = present

    def _sweep(self) -> None:
        """What is older than KEPT goes."""
        self._swept = self._clock()
        for bucket in [one for one in self._amounts if one.start < self._swept - KEPT]:
            del self._amounts[bucket]


def hour_of(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)


def _hours(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """A stretch of time, cut at the hours."""
    while start < end:
        until = min(hour_of(start) + HOUR, end)
        yield start, until
        start = until
