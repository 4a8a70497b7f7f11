"""A system's few parameters from what was measured of one experiment and of two at a time, and from nothing else.

Which kind of system it is follows from how it works, not from the numbers:

    shared      everything mixed, on the same cores or in step with each other:   R(N) = a + b N, from R(1) and R(2)
    apart       sampler and trainer on devices of their own, each with a batch:   a and b of each, from its own times
    exclusive   samples in one batch, training one adapter at a time:             the trainer's part D of a step alone
"""

from __future__ import annotations

from dataclasses import dataclass

from motet.errors import BadConfig
from motet.planner.law import Batched, NoLimit, OneAtATime, Station, solve
from motet.planner.makespan import Law, Outside, Work

ROUNDS = 100  # of bisection


@dataclass(frozen=True)
class Measured:
    """One level. Seconds; None: it was not told."""

    level: int
    step: float
    last: float | None = None  # until the last experiment is over
    first: float | None = None  # until the first is
    own: float | None = None  # of an experiment from its own beginning on, on average
    rollout: float | None = None  # of a step: at the sampler
    training: float | None = None  # of a step: at the trainer


def fit_shared(alone: Measured, two: Measured) -> Law:
    """BadConfig: no such system."""
    _check(alone.step, two.step)
    return Law([_batched(alone.step, two.step)])


def fit_exclusive(alone: Measured, two: Measured) -> Law:
    """From R(2) = R(1) + D^2 / R(1). BadConfig: no such system."""
    _check(alone.step, two.step)
    least, most = 0.0, alone.step
    for _ in range(ROUNDS):
        middle = (least + most) / 2
        stations: list[Station] = [NoLimit(alone.step - middle), OneAtATime(middle)]
        longer = solve(stations, 2)[1].step < two.step
        least, most = (middle, most) if longer else (least, middle)
    return Law([NoLimit(alone.step - most), OneAtATime(most)])


def fit_apart(alone: Measured, two: Measured) -> Law:
    """A station's time for two is (1 - U) (a + b) + U (a + 2 b), with U its part of a step alone. BadConfig."""
    if alone.rollout is None or alone.training is None or two.rollout is None or two.training is None:
        raise BadConfig("rollout and training times of both levels are needed: give a benchmark's file with --from")
    whole, stations = alone.rollout + alone.training, list[Station]()
    for one, other in ((alone.rollout, two.rollout), (alone.training, two.training)):
        part = one / whole
        together = (other - (1 - part) * one) / part
        if not one <= together <= 2 * one:
            raise BadConfig(
                f"a station of {one:g} s alone and {other:g} s for two is none of such a system: where experiments "
                "wait for each other, --kind shared is the law"
            )
        stations.append(_batched(one, together))
    return Law(stations)


FITS = {"shared": fit_shared, "apart": fit_apart, "exclusive": fit_exclusive}


def with_outside(law: Law, alone: Measured, two: Measured, work: Work) -> Law:
    """What of the two makespans of `work` is in no step: never negative, never slower side by side than in turn."""
    if alone.last is None or two.last is None:
        return law
    points, pairs, rest = solve(law.stations, 2), work.experiments // 2, work.experiments % 2
    single = work.steps * points[0].step
    first = max(0.0, alone.last / work.experiments - single)
    second = (two.last - rest * (single + first)) / pairs - work.steps * points[1].step if pairs else first
    return Law(law.stations, Outside(first, min(max(0.0, second - first), first)))


def _batched(one: float, two: float) -> Batched:
    return Batched(fixed=2 * one - two, each=two - one)


def _check(alone: float, two: float) -> None:
    if not alone < two < 2 * alone:
        raise BadConfig(f"steps of {alone:g} s alone and {two:g} s for two are of no such network: measure again")
