"""Results that are kept, and which of them go first."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from motet.service.http.futures import Promise


@dataclass(eq=False)
class Pile:
    """Promises that were kept, the oldest first, and the bytes of their results."""

    promises: OrderedDict[str, Promise] = field(default_factory=OrderedDict)
    bytes: int = 0

    def put(self, promise: Promise) -> None:
        promise.since = time.monotonic()
        self.promises[promise.id] = promise
        self.bytes += _size(promise)

    def take(self, promise: Promise) -> None:
        del self.promises[promise.id]
        self.bytes -= _size(promise)

    @property
    def oldest(self) -> Promise | None:
        return next(iter(self.promises.values()), None)


class Results:
    """One pile of what was read, and for each tenant one of what was not."""

    def __init__(self) -> None:
        self._read = Pile()
        self._unread: dict[str, Pile] = {}

    @property
    def piles(self) -> list[Pile]:
        return [self._read, *self._unread.values()]

    @property
    def bytes(self) -> int:
        return sum(pile.bytes for pile in self.piles)

    @property
    def count(self) -> int:
        return sum(len(pile.promises) for pile in self.piles)

    def find(self, tenant: str, request_id: str) -> Promise | None:
        unread = self._unread.get(tenant)
        found = None if unread is None else unread.promises.get(request_id)
        return found or self._read.promises.get(request_id)

    def add(self, promise: Promise) -> None:
        """A new result, which nobody has read."""
        self._unread.setdefault(promise.tenant, Pile()).put(promise)

    def read(self, promise: Promise) -> None:
        """Somebody has read it for the first time; later times are nothing, and so is one that has gone."""
        unread = self._unread.get(promise.tenant)
        if unread is not None and promise.id in unread.promises:
            self._take_unread(unread, promise)
            self._read.put(promise)

    def let_go(self, keep_seconds: float, unread_seconds: float, most_bytes: int) -> Iterator[Promise]:
        """Forget what was read or came too long ago; then, over `most_bytes`, read ones, then unread ones of whoever
        leaves the most lying."""
        now = time.monotonic()
        while (promise := self._read.oldest) and (promise.since <= now - keep_seconds or self.bytes > most_bytes):
            self._read.take(promise)
            yield promise
        for pile in list(self._unread.values()):
            while (promise := pile.oldest) and promise.since <= now - unread_seconds:
                yield self._take_unread(pile, promise)
        while self._unread and self.bytes > most_bytes:
            pile = max(self._unread.values(), key=lambda pile: pile.bytes)
            assert pile.oldest is not None
            yield self._take_unread(pile, pile.oldest)

    def _take_unread(self, pile: Pile, promise: Promise) -> Promise:
        pile.take(promise)
        if not pile.promises:
            del self._unread[promise.tenant]
        return promise


def _size(promise: Promise) -> int:
    assert promise.reply is not None
    return len(promise.reply.body)
