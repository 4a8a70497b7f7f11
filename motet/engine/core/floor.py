"""Who has the cores. Two lanes over the same cores take turns; with cores of their own neither ever waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Lane = Literal["sampling", "training"]
OTHER: dict[Lane, Lane] = {"sampling": "training", "training": "sampling"}
IDLE_CLAIM = 0.05  # seconds of device time that a lane may be behind when it comes back from being idle


class LaneClock:
    """One lane's times, in seconds."""

    def __init__(self) -> None:
        self.spent = 0.0  # device time as shares count it
        self.busy = 0.0  # at work
        self.longest_wait = 0.0
        self.began = 0.0


class Floor:
    """At most one lane at work at a time, each with an equal share of device time while both want it.

    With `exclusive` off the lanes have cores of their own: nobody waits, and only the times are kept.
    """

    def __init__(self, exclusive: bool) -> None:
        self.clocks: dict[Lane, LaneClock] = {"sampling": LaneClock(), "training": LaneClock()}
        self._exclusive = exclusive
        self._changed = threading.Condition()
        self._holder: Lane | None = None
        self._waiting: set[Lane] = set()

    @contextmanager
    def held(self, lane: Lane) -> Iterator[None]:
        """Work in here has the cores."""
        self._take(lane)
        try:
            yield
        finally:
            self._give(lane)

    def breathe(self, lane: Lane) -> None:
        """Between two parts of a longer work: let the other lane in where it waits and has had less."""
        if OTHER[lane] not in self._waiting:
            return
        with self._changed:
            mine, other = self.clocks[lane], self.clocks[OTHER[lane]]
            due = OTHER[lane] in self._waiting and mine.spent + time.perf_counter() - mine.began > other.spent
        if due:
            self._give(lane)
            self._take(lane)

    def _take(self, lane: Lane) -> None:
        asked = time.perf_counter()
        clock = self.clocks[lane]
        with self._changed:
            if self._exclusive:
                self._waiting.add(lane)
                clock.spent = max(clock.spent, self.clocks[OTHER[lane]].spent - IDLE_CLAIM)
                self._changed.wait_for(lambda: self._may_take(lane))
                self._waiting.discard(lane)
                self._holder = lane
            clock.began = time.perf_counter()
            clock.longest_wait = max(clock.longest_wait, clock.began - asked)

    def _may_take(self, lane: Lane) -> bool:
        rival = OTHER[lane] in self._waiting and self.clocks[OTHER[lane]].spent < self.clocks[lane].spent
        return self._holder is None and not rival

    def _give(self, lane: Lane) -> None:
        with self._changed:
            clock = self.clocks[lane]
            worked = time.perf_counter() - clock.began
            clock.busy += worked
            clock.spent += worked
            self._holder = None
            self._changed.notify_all()
