"""Answers on their way to the disk. Taking one is done at once, whatever the disk does; a full queue drops it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from motet.service.catalog.catalog import Catalog
from motet.service.catalog.changes import Add, Change, StorageFault
from motet.service.feedback.answers import Given, packed
from motet.service.feedback.redaction import Redaction

GROUP = 64  # records in one change


def plain_now() -> datetime:
    """As the catalog holds times: UTC without a zone."""
    return datetime.now(UTC).replace(tzinfo=None)


class Numbers:
    """One line of numbers for all answers. A number and its writing must not be parted by an `await`."""

    def __init__(self, highest: int) -> None:
        self._next: Iterator[int] = itertools.count(highest + 1)

    def next(self) -> int:
        return next(self._next)


class Recorder:
    """Writes what `take` was given, in its order. `work` must run."""

    def __init__(self, catalog: Catalog, redaction: Redaction, numbers: Numbers, most_waiting: int) -> None:
        self._catalog = catalog
        self._redaction = redaction
        self._numbers = numbers
        self._queue: asyncio.Queue[Given] = asyncio.Queue(most_waiting)
        self._waiting: dict[tuple[str, str], asyncio.Event] = {}  # by tenant and id
        self.written = 0
        self.dropped = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def take(self, given: Given) -> None:
        """Record an answer, in its own time; it is dropped where too many wait."""
        try:
            self._queue.put_nowait(given)
        except asyncio.QueueFull:
            self.dropped += 1
        else:
            self._waiting[given.tenant, given.id] = asyncio.Event()

    async def settled(self, tenant: str, answer: str) -> None:
        """Wait until an answer that was taken is written, or lost."""
        if (event := self._waiting.get((tenant, answer))) is not None:
            await event.wait()

    async def flush(self) -> None:
        """Wait until everything that was taken is written, or lost."""
        for event in list(self._waiting.values()):
            await event.wait()

    async def work(self) -> None:
        """Write, for as long as the server stands."""
        while True:
            group = [await self._queue.get()]
            while len(group) < GROUP and not self._queue.empty():
                group.append(self._queue.get_nowait())
            rows = await asyncio.to_thread(self._pack, group)
            try:
                await self._catalog.write(
                    Change([Add("answers", {**row, "number": self._numbers.next()}) for row in rows])
                )
                self.written += len(group)
            except StorageFault:
                self.dropped += len(group)
            for given in group:
                self._waiting.pop((given.tenant, given.id)).set()

    def _pack(self, group: list[Given]) -> list[dict[str, Any]]:
        time = plain_now()
        return [packed(given, self._redaction, time) for given in group]
