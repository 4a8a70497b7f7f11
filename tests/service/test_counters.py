"""Counters of use, by tenant and hour."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from motet.service.catalog.catalog import Catalog
from motet.service.http.counters import HOUR, Usage
from motet.service.http.journal import Journal

START = datetime(2026, 1, 1, 10, 30, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> datetime:
        return self.time

    def pass_by(self, **length: float) -> None:
        self.time += timedelta(**length)


def told(usage: Usage, tenant: str, start: datetime = START - HOUR, end: datetime = START + 50 * HOUR) -> list[object]:
    return [
        (used.bucket.start.hour, used.bucket.session, used.bucket.measure, used.amount)
        for used in usage.between(tenant, start, end)
    ]


def test_tokens_add_up_in_their_hour_under_their_session_and_tenant() -> None:
    clock = Clock()
    usage = Usage(clock)
    usage.note("a", "s1", "trained", 10)
    usage.note("a", "s1", "trained", 5)
    usage.note("a", "s2", "sampled", 40)
    usage.note("b", "s3", "sampled", 7)
    usage.note("a", "s1", "prompted_cached", 0)
    clock.pass_by(hours=1)
    usage.note("a", "s1", "trained", 1)
    assert told(usage, "a") == [(10, "s2", "sampled", 40), (10, "s1", "trained", 15), (11, "s1", "trained", 1)]
    assert told(usage, "b") == [(10, "s3", "sampled", 7)]
    hour = START.replace(minute=0)
    assert told(usage, "a", hour, hour + HOUR) == [(10, "s2", "sampled", 40), (10, "s1", "trained", 15)]
    assert told(usage, "c") == []


def test_bytes_count_for_as_long_as_they_are_kept() -> None:
    clock = Clock()
    usage = Usage(clock)
    usage.keep("a", 1000)
    clock.pass_by(minutes=45)  # until 11:15
    usage.keep("a", 3000)
    clock.pass_by(minutes=60)  # until 12:15
    usage.keep("a", -4000)
    clock.pass_by(hours=5)
    assert usage.stored_bytes("a") == 0 and usage.stored_bytes("b") == 0
    by_hour = {hour: amount for hour, _, measure, amount in told(usage, "a") if amount}  # type: ignore[misc,has-type]
    assert by_hour == {10: 500.0, 11: 250.0 + 3000.0, 12: 1000.0}


def test_what_is_old_goes() -> None:
    clock = Clock()
    usage = Usage(clock)
    usage.note("a", None, "sampled", 1)
    clock.pass_by(days=40)
    usage.note("a", None, "sampled", 2)
    assert told(usage, "a", end=clock.time + HOUR) == [(10, None, "sampled", 2)]


def test_what_was_used_outlives_the_server(tmp_path: Path) -> None:
    clock, catalog = Clock(), Catalog(tmp_path)
    usage = Usage(clock)
    usage.note("a", "s1", "trained", 10)
    usage.keep("a", 1000)
    clock.pass_by(minutes=15)
    write = Journal(catalog).write
    for _ in range(2):
        asyncio.run(usage.save(write))
        usage.note("a", "s1", "trained", 5)
        usage.note("a", None, "sampled", 1)
    asyncio.run(usage.save(write))
    again = Usage(clock)
    again.load(catalog.rows("usage"))
    assert told(again, "a") == told(usage, "a")
    assert [used for used in told(again, "a")][0] == (10, None, "byte_hours", 250)
    written = catalog.commits
    asyncio.run(again.save(write))
    assert catalog.commits == written  # nothing has changed
    clock.pass_by(days=40)
    again.note("a", "s1", "trained", 1)
    asyncio.run(again.save(write))
    assert [row["amount"] for row in catalog.rows("usage")] == [1]
    catalog.close()
