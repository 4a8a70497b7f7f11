"""Who has the cores. Two lanes over the same cores take turns; with cores of their own neither ever waits.

A lane's budget is a part of device time, and start-time fair queueing between the two (see `turns.ledger`) keeps to it.
A lane that wants nothing leaves all of it to the other. While `serving` says so, somebody waits for an
answer, and the sampling lane comes before its turn. Whatever the budgets, a lane that has waited for LONGEST_WAIT, less
the time that the other's parts take, comes next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from motet.engine.types import Lane

OTHER: dict[Lane, Lane] = {"sampling": "training", "training": "sampling"}
IDLE_CLAIM = 0.05  # seconds, divided by its budget, that a lane may be behind when it comes back from being idle
LONGEST_WAIT = 0.25  # seconds that a lane waits for the other, where no part of the other's work is longer than that
GRACE = 0.002  # seconds that the floor is kept free for a lane whose turn it still is, between two works of it
FADING = 0.95  # how a long part is forgotten, from one to the next


class LaneClock:
    """One lane's times, in seconds."""

    def __init__(self) -> None:
        self.tag = 0.0  # device time divided by the budget of its moment
        self.busy = 0.0  # at work
        self.longest_wait = 0.0
        self.began = 0.0
        self.asked: float | None = None  # since when it waits, if it does
        self.back_until = 0.0  # it has just ended a work, and may well have another
        self.part_began = 0.0
        self.longest_part = 0.0  # between two breaths, lately

    def end_part(self, now: float) -> None:
        self.longest_part = max(now - self.part_began, self.longest_part * FADING)
        self.part_began = now


class Floor:
    """At most one lane at work at a time, each with its budget of device time while both want it.

    With `exclusive` off the lanes have cores of their own: nobody waits, and only the times are kept. A `patient` floor
    changes hands in the middle of a work only where the other has waited for as long as it may.
    """

    def __init__(
        self,
        exclusive: bool,
        budget: Callable[[Lane], float] = lambda lane: 0.5,
        patient: bool = False,
        serving: Callable[[], bool] = lambda: False,
    ) -> None:
        self.clocks: dict[Lane, LaneClock] = {"sampling": LaneClock(), "training": LaneClock()}
        self._exclusive = exclusive
        self._budget = budget
        self._patient = patient
        self._serving = serving
        self._changed = threading.Condition()
        self._holder: Lane | None = None

    @contextmanager
    def held(self, lane: Lane) -> Iterator[None]:
        """Work in here has the cores."""
        self._take(lane)
        try:
            yield
        finally:
            self._give(lane, GRACE)

    def breathe(self, lane: Lane) -> None:
        """Between two parts of a longer work: let the other lane in where it waits and its turn has come."""
        mine, other = self.clocks[lane], self.clocks[OTHER[lane]]
        now = time.perf_counter()
        mine.end_part(now)
        if other.asked is None:
            return
        with self._changed:
            due = other.asked is not None and (self._overtakes(lane, now) or self._pressing(OTHER[lane], now))
        if due:
            self._give(lane, 0.0)
            self._take(lane)

    def worked(self, lane: Lane) -> float:
        """Seconds that the lane has had the cores, now that it has them."""
        clock = self.clocks[lane]
        return clock.busy + time.perf_counter() - clock.began

    def _overtakes(self, lane: Lane, now: float) -> bool:
        """The other lane comes in the middle of this one's work, wherever it waits."""
        if self._serving():
            return lane == "training"
        mine, other = self.clocks[lane], self.clocks[OTHER[lane]]
        return not self._patient and mine.tag + (now - mine.began) / self._budget(lane) > other.tag

    def _pressing(self, lane: Lane, now: float) -> bool:
        """It waits, and would wait for too long if the other did one part more."""
        asked = self.clocks[lane].asked
        return asked is not None and now - asked + self.clocks[OTHER[lane]].longest_part >= LONGEST_WAIT

    def _take(self, lane: Lane) -> None:
        asked = time.perf_counter()
        clock = self.clocks[lane]
        with self._changed:
            if self._exclusive:
                clock.asked = asked
                clock.tag = max(clock.tag, self.clocks[OTHER[lane]].tag - IDLE_CLAIM / self._budget(lane))
                while not self._may_take(lane):
                    self._changed.wait(None if self._holder else GRACE)
                clock.asked = None
                self._holder = lane
            clock.began = clock.part_began = time.perf_counter()
            clock.longest_wait = max(clock.longest_wait, clock.began - asked)

    def _may_take(self, lane: Lane) -> bool:
        if self._holder is not None:
            return False
        mine, rival, now = self.clocks[lane], self.clocks[OTHER[lane]], time.perf_counter()
        assert mine.asked is not None
        if rival.asked is None:
            theirs = now < rival.back_until and self._before(OTHER[lane])
            return not theirs or self._pressing(lane, now)
        if self._pressing(lane, now) or self._pressing(OTHER[lane], now):
            return mine.asked < rival.asked
        return self._before(lane) if self._serving() else mine.tag <= rival.tag

    def _before(self, lane: Lane) -> bool:
        """Is it this lane's turn still, in the moment between two works of it?"""
        if self._serving():
            return lane == "sampling"
        return self._patient or self.clocks[lane].tag < self.clocks[OTHER[lane]].tag

    def _give(self, lane: Lane, grace: float) -> None:
        with self._changed:
            clock, now = self.clocks[lane], time.perf_counter()
            clock.end_part(now)
            clock.busy += now - clock.began
            clock.tag += (now - clock.began) / self._budget(lane)
            clock.began, clock.back_until = now, now + grace
            self._holder = None
            self._changed.notify_all()
