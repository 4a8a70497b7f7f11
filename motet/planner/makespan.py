"""From the time of a step to what a person waits for: E experiments, N of them at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from motet.planner.law import Point, Station, solve


@dataclass(frozen=True)
class Work:
    """What is to be done."""

    experiments: int
    steps: int  # of each


@dataclass(frozen=True)
class Outside:
    """Seconds that an experiment spends outside of its steps (to begin, to evaluate), and more for each beside it."""

    alone: float = 0.0
    beside: float = 0.0

    def at(self, level: int) -> float:
        return self.alone + self.beside * (level - 1)


@dataclass(frozen=True)
class Waiting:
    """Seconds. `last`, `mean` and `first` are from the start of the whole, the waiting for one's turn included, as the
    published table counts; `own` is from an experiment's own beginning to its end, on average."""

    level: int
    last: float  # until the last experiment is over
    mean: float  # until an experiment is over, on average
    first: float  # until the first is over
    own: float
    step: float


@dataclass(frozen=True)
class Law:
    """A system: where its experiments circulate, and what they do besides."""

    stations: Sequence[Station]
    outside: Outside = Outside()

    def table(self, work: Work) -> list[Waiting]:
        """Every level from one at a time to all."""
        points = solve(self.stations, work.experiments)
        return [waiting(points, work, level, self.outside) for level in range(1, work.experiments + 1)]


def waiting(points: Sequence[Point], work: Work, level: int, outside: Outside = Outside()) -> Waiting:
    """Experiments begin in waves of `level`; the last wave may be smaller, and is faster then.

    `points` are those of the levels 1, 2, ...: of `level` at least.
    """
    lengths, ends = list[float](), list[float]()
    left, now = work.experiments, 0.0
    while left > 0:
        wave = min(level, left)
        length = work.steps * points[wave - 1].step + outside.at(wave)
        now += length
        lengths += [length] * wave
        ends += [now] * wave
        left -= wave
    count = work.experiments
    return Waiting(level, now, sum(ends) / count, ends[0], sum(lengths) / count, points[level - 1].step)
