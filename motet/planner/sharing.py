"""A station as it works: whoever is there gets the same part of its rate (processor sharing).

By virtual time: it runs at mu(k) / k, and a customer with work w that comes at virtual time v leaves at v + w, whoever
else comes and goes. So an arrival and a departure cost log k, and thousands may be there.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from motet.planner.law import Station

Customer = TypeVar("Customer")


@dataclass
class Shared(Generic[Customer]):
    """`present_seconds`, `busy_seconds`: customers times seconds, and seconds with any, since it began."""

    station: Station
    present_seconds: float = 0.0
    busy_seconds: float = 0.0
    _clock: float = 0.0
    _virtual: float = 0.0
    _entries: int = 0
    _leaving: list[tuple[float, int, Customer]] = field(default_factory=list)  # virtual time, order of coming

    def enter(self, now: float, customer: Customer, work: float) -> None:
        """`work` in units of what is done at the rate 1."""
        self._advance(now)
        self._entries += 1
        heapq.heappush(self._leaving, (self._virtual + work, self._entries, customer))

    def next_end(self) -> float:
        """When the next one leaves if nobody comes before; infinity: nobody is there."""
        if not self._leaving:
            return math.inf
        return self._clock + (self._leaving[0][0] - self._virtual) / self._speed()

    def leave(self, now: float) -> Customer:
        """Whoever is through, `now` being `next_end`."""
        self._advance(now)
        self._virtual, _, customer = heapq.heappop(self._leaving)
        return customer

    def clear(self, now: float) -> list[Customer]:
        """Everybody goes, their work undone, in the order in which they came."""
        self._advance(now)
        gone = [customer for _, _, customer in sorted(self._leaving, key=lambda entry: entry[1])]
        self._leaving.clear()
        return gone

    def _advance(self, now: float) -> None:
        if self._leaving:
            self._virtual += (now - self._clock) * self._speed()
            self.present_seconds += (now - self._clock) * len(self._leaving)
            self.busy_seconds += now - self._clock
        self._clock = now

    def _speed(self) -> float:
        return self.station.rate(len(self._leaving)) / len(self._leaving)
