"""A discrete-event simulation of the same network, for what no formula answers: arrivals, skew, unequal experiments,
failures of nodes.

Experiments come at given times; every node has the stations of the law and admits so many at a time; the admitted ones
circulate, a round a step. Work is exponential, as the law has it, or fixed: then those that begin together stay so. A
node that fails throws every step in hand there away; its experiments go on from their last finished step, before all
that wait, on whichever node has room.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from motet.planner.law import Station
from motet.planner.line import Job, Line
from motet.planner.sharing import Shared


@dataclass(frozen=True)
class Failure:
    """A node is away from `at` for `seconds`."""

    at: float
    seconds: float
    node: int = 0


@dataclass(frozen=True)
class Ended:
    """What became of an experiment."""

    job: Job
    began: float
    ended: float

    @property
    def waited(self) -> float:
        return self.began - self.job.arrives


@dataclass(frozen=True)
class Outcome:
    """Experiments in the order in which they ended; steps thrown away; of each station, over all nodes, how many
    experiments were there on average, and for which part of the time any."""

    ended: list[Ended]
    lost: int
    seconds: float
    present: tuple[float, ...]
    busy: tuple[float, ...]


@dataclass(eq=False)
class _Running:
    job: Job
    began: float
    left: int  # steps
    place: int  # of the station that it is at


@dataclass(eq=False)
class _Node:
    stations: list[Shared[_Running]]
    back: float = 0.0  # when it is there again
    running: int = 0


@dataclass
class Simulation:
    """admitted: experiments at a time on each node. opening: what each goes through once, before its first step."""

    stations: Sequence[Station]
    admitted: int
    nodes: int = 1
    variability: Literal["exponential", "fixed"] = "exponential"
    fair: bool = False
    seed: int = 0
    opening: Station | None = None
    _nodes: list[_Node] = field(init=False, default_factory=list)
    _again: deque[_Running] = field(init=False, default_factory=deque)
    _lost: int = field(init=False, default=0)

    def run(self, jobs: Sequence[Job], failures: Sequence[Failure] = ()) -> Outcome:
        """Until the last experiment is over."""
        self._draw, self._line, self._lost, now = Random(self.seed), Line(self.fair), 0, 0.0
        route = [*([self.opening] if self.opening else []), *self.stations]
        self._nodes = [_Node([Shared(station) for station in route]) for _ in range(self.nodes)]
        coming = deque(sorted(jobs, key=lambda job: job.arrives))
        trouble = deque(sorted(failures, key=lambda failure: failure.at))
        ended = list[Ended]()
        while len(ended) < len(jobs):
            self._admit(now)
            finish, node, place = self._next_end()
            arrival = coming[0].arrives if coming else math.inf
            failure = trouble[0].at if trouble else math.inf
            back = min((one.back for one in self._nodes if one.back > now), default=math.inf)
            now = min(finish, arrival, failure, back)
            if now == finish:
                ended += self._go_on(now, self._nodes[node], place)
            elif now == failure:
                self._fail(trouble.popleft())
            elif now == arrival:
                self._line.put(coming.popleft())
        return self._outcome(ended, now)

    def _admit(self, now: float) -> None:
        """As many as there is room for, each to the node with the fewest."""
        while room := [node for node in self._nodes if node.back <= now and node.running < self.admitted]:
            if self._again:
                one = self._again.popleft()
            elif (job := self._line.take()) is not None:
                one = _Running(job, now, job.steps, 0)
            else:
                return
            node = min(room, key=lambda node: node.running)
            node.running += 1
            self._enter(now, node, one)

    def _enter(self, now: float, node: _Node, one: _Running) -> None:
        work = 1.0 if self.variability == "fixed" else self._draw.expovariate(1.0)
        node.stations[one.place].enter(now, one, work * one.job.size)

    def _next_end(self) -> tuple[float, int, int]:
        """The earliest departure: when, from which node, from which of its stations."""
        ends = [
            (station.next_end(), number, place)
            for number, node in enumerate(self._nodes)
            for place, station in enumerate(node.stations)
        ]
        return min(ends)

    def _go_on(self, now: float, node: _Node, place: int) -> list[Ended]:
        """Whoever is through goes to the next station, the next step, or home."""
        one = node.stations[place].leave(now)
        one.place += 1
        if one.place == len(node.stations):
            one.place, one.left = self._first_place, one.left - 1
        if one.left > 0:
            self._enter(now, node, one)
            return []
        node.running -= 1
        self._line.done(one.job.tenant)
        return [Ended(one.job, one.began, now)]

    @property
    def _first_place(self) -> int:
        return 1 if self.opening else 0

    def _fail(self, failure: Failure) -> None:
        node = self._nodes[failure.node]
        hit = [one for station in node.stations for one in station.clear(failure.at)]
        for one in hit:
            one.place = min(one.place, self._first_place)
        self._lost += len(hit)
        self._again.extend(sorted(hit, key=lambda one: one.began))
        node.running, node.back = 0, max(node.back, failure.at + failure.seconds)

    def _outcome(self, ended: list[Ended], now: float) -> Outcome:
        places = range(len(self._nodes[0].stations))
        present = [sum(node.stations[place].present_seconds for node in self._nodes) for place in places]
        busy = [sum(node.stations[place].busy_seconds for node in self._nodes) / self.nodes for place in places]
        seconds = now or math.inf
        return Outcome(ended, self._lost, now, tuple(p / seconds for p in present), tuple(b / seconds for b in busy))
