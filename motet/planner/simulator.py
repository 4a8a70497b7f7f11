"""A discrete-event simulation of the same network, for what no formula answers: arrivals, skew, failures.

Experiments come at given times, each with so many steps; the admitted ones circulate between the stations; a station
with k of them works at the rate mu(k), shared by all alike (processor sharing), on service times that are exponential
or fixed. A failure throws the step in hand of everybody away and takes a while.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from motet.planner.law import Station


@dataclass(frozen=True)
class Job:
    """An experiment."""

    tenant: str
    arrives: float  # seconds
    steps: int


@dataclass(frozen=True)
class Failure:
    """The node is away from `at` for `seconds`, and every step in hand begins again."""

    at: float
    seconds: float


@dataclass(frozen=True)
class Ended:
    """What became of an experiment."""

    job: Job
    began: float
    ended: float

    @property
    def waited(self) -> float:
        return self.began - self.job.arrives


@dataclass(eq=False)
class _Running:
    job: Job
    began: float
    left: int  # steps
    station: int = 0
    work: float = 0.0  # of this visit, in units of service at the rate 1


@dataclass
class Simulation:
    """admitted: experiments at a time. variability: of a visit's work around its mean of 1."""

    stations: Sequence[Station]
    admitted: int
    variability: Literal["exponential", "fixed"] = "exponential"
    seed: int = 0
    _clock: float = field(default=0.0, init=False)

    def run(self, jobs: Sequence[Job], failures: Sequence[Failure] = ()) -> list[Ended]:
        """Until the last experiment is over, in the order in which they end."""
        draw, self._clock = Random(self.seed), 0.0
        coming = [(job.arrives, place, job) for place, job in enumerate(jobs)]
        heapq.heapify(coming)
        trouble = deque(sorted(failures, key=lambda one: one.at))
        queue, running, ended = deque[Job](), list[_Running](), list[Ended]()
        while coming or queue or running:
            while queue and len(running) < self.admitted:
                job = queue.popleft()
                running.append(_Running(job, self._clock, job.steps, work=self._drawn(draw)))
            finish = self._next_end(running)
            arrival = coming[0][0] if coming else math.inf
            failure = trouble[0].at if trouble else math.inf
            moment = min(finish, max(arrival, self._clock), max(failure, self._clock))
            self._advance(running, moment)
            if moment == finish:
                ended += self._leave(running, draw)
            elif trouble and moment == max(failure, moment):
                self._clock += trouble.popleft().seconds
                for one in running:
                    one.station, one.work = 0, self._drawn(draw)
            else:
                queue.append(heapq.heappop(coming)[2])
        return ended

    def _rates(self, running: Sequence[_Running]) -> list[float]:
        """Work that each experiment gets done in a second."""
        present = [sum(one.station == place for one in running) for place in range(len(self.stations))]
        return [self.stations[one.station].rate(present[one.station]) / present[one.station] for one in running]

    def _next_end(self, running: Sequence[_Running]) -> float:
        left = [one.work / rate for one, rate in zip(running, self._rates(running), strict=True)]
        return self._clock + min(left, default=math.inf)

    def _advance(self, running: Sequence[_Running], moment: float) -> None:
        rates = self._rates(running)
        for one, rate in zip(running, rates, strict=True):
            one.work -= rate * (moment - self._clock)
        self._clock = moment

    def _leave(self, running: list[_Running], draw: Random) -> list[Ended]:
        """Whoever has no work left goes on: to the next station, the next step, or home."""
        ended = []
        for one in [one for one in running if one.work <= 1e-9]:
            one.station += 1
            if one.station == len(self.stations):
                one.station, one.left = 0, one.left - 1
            one.work = self._drawn(draw)
            if one.left == 0:
                running.remove(one)
                ended.append(Ended(one.job, one.began, self._clock))
        return ended

    def _drawn(self, draw: Random) -> float:
        return 1.0 if self.variability == "fixed" else draw.expovariate(1.0)
