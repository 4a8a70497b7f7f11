"""From the time of a step to what a person waits for: E experiments, N of them at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from motet.planner.law import Point


@dataclass(frozen=True)
class Work:
    """What is to be done."""

    experiments: int
    steps: int  # of each


@dataclass(frozen=True)
class Waiting:
    """Seconds from the start of the whole, as the published table counts them."""

    level: int
    last: float  # until the last experiment is over
    mean: float  # until an experiment is over, on average
    first: float  # until the first is over
    step: float


def waiting(points: Sequence[Point], work: Work, level: int) -> Waiting:
    """Experiments begin in waves of `level`; the last wave may be smaller, and is faster then.

    `points` are those of the levels 1, 2, ...: of `level` at least.
    """
    ends: list[float] = []
    left, now = work.experiments, 0.0
    while left > 0:
        wave = min(level, left)
        now += work.steps * points[wave - 1].step
        ends += [now] * wave
        left -= wave
    first = work.steps * points[min(level, work.experiments) - 1].step
    return Waiting(level, now, sum(ends) / len(ends), first, points[level - 1].step)
