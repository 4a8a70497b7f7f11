"""A network's few parameters, from how long a step takes for one experiment and for two."""

from __future__ import annotations

from collections.abc import Sequence

from motet.errors import BadConfig
from motet.planner.law import Batched, NoLimit, OneAtATime, Station, solve

ROUNDS = 100  # of bisection


def fit_exclusive(alone: float, two: float) -> Sequence[Station]:
    """Samples of everybody in one batch, training one adapter at a time: the published system.

    One parameter, the trainer's part D of a step alone; from R(2) = R(1) + D^2 / R(1). BadConfig: no such network.
    """
    if not alone < two < 2 * alone:
        raise BadConfig(f"steps of {alone:g} s alone and {two:g} s for two are of no such network: measure again")
    least, most = 0.0, alone
    for _ in range(ROUNDS):
        middle = (least + most) / 2
        stations: list[Station] = [NoLimit(alone - middle), OneAtATime(middle)]
        longer = solve(stations, 2)[1].step < two
        least, most = (middle, most) if longer else (least, middle)
    return [NoLimit(alone - most), OneAtATime(most)]


def fit_shared(alone: float, two: float) -> Sequence[Station]:
    """Everything mixed, on the same cores: this engine on a CPU. R(N) = a + b N. BadConfig: no such network."""
    if not alone < two < 2 * alone:
        raise BadConfig(f"steps of {alone:g} s alone and {two:g} s for two are of no such network: measure again")
    each = two - alone
    return [Batched(alone - each, each)]
