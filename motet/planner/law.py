"""The capacity law: N experiments circulate between stations, a sampler and a trainer, one step a round.

A closed product-form network without think time. A station with k experiments in it finishes them at the rate mu(k):

    one at a time   mu(k) = 1 / D             the published trainer: one adapter after the other
    no limit        mu(k) = k / D             a sampler whose batch costs no more than one of it
    batched         mu(k) = k / (a + b k)     a pass of k takes a fixed part and one for each

Solved exactly by mean value analysis with load-dependent rates (Reiser and Lavenberg 1980, JACM 27(2), section 5): for
n = 1..N, with p_i(j | n) the probability of j experiments at station i,

    R_i(n) = sum_j j / mu_i(j) p_i(j-1 | n-1),    X(n) = n / sum_i R_i(n),    p_i(j | n) = X(n) / mu_i(j) p_i(j-1 | n-1)

R, the sum of the R_i, is the time of a step, X the steps a second of all together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Station(Protocol):
    """Somewhere that experiments are worked on."""

    def rate(self, present: int) -> float:
        """Steps a second that leave it while so many experiments (at least 1) are there."""
        ...


@dataclass(frozen=True)
class OneAtATime:
    """demand: seconds of a step."""

    demand: float

    def rate(self, present: int) -> float:
        return 1.0 / self.demand


@dataclass(frozen=True)
class NoLimit:
    """demand: seconds of a step, however many others there are."""

    demand: float

    def rate(self, present: int) -> float:
        return present / self.demand


@dataclass(frozen=True)
class Batched:
    """fixed, each: seconds of a pass, and of every experiment in it."""

    fixed: float
    each: float

    def rate(self, present: int) -> float:
        return present / (self.fixed + self.each * present)


@dataclass(frozen=True)
class Point:
    """What the law says of one level."""

    level: int  # experiments at a time
    step: float  # seconds
    throughput: float  # steps a second, of all together
    times: tuple[float, ...]  # seconds of a step at each station, waiting included


def solve(stations: Sequence[Station], most: int) -> list[Point]:
    """The points of the levels 1 to `most`."""
    there = [[1.0] for _ in stations]  # probabilities of 0, 1, ... experiments at each station
    points = []
    for level in range(1, most + 1):
        times = tuple(
            sum(count / station.rate(count) * before[count - 1] for count in range(1, level + 1))
            for station, before in zip(stations, there, strict=True)
        )
        throughput = level / sum(times)
        points.append(Point(level, sum(times), throughput, times))
        there = [_probabilities(s, before, throughput) for s, before in zip(stations, there, strict=True)]
    return points


def _probabilities(station: Station, before: Sequence[float], throughput: float) -> list[float]:
    """Of each number of experiments at a station, with one more in the network."""
    some = [throughput / station.rate(count) * before[count - 1] for count in range(1, len(before) + 1)]
    return [max(0.0, 1.0 - sum(some)), *some]
