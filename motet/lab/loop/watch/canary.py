"""Live feedback to a candidate and to what serves, looked at again and again.

Each answer was good or bad (0 or 1). Of either version's mean we have at every number n of items a bound that holds for
all n at once, so that looking often costs nothing: with s = n/4 + r the mean is within

    sqrt(s log(s / (r a^2))) / n

of the truth with probability 1 - a (Howard, Ramdas, McAuliffe, Sekhon 2021, "Time-uniform, nonparametric,
nonasymptotic confidence sequences", arXiv:1810.08240, equation 14, the two-sided normal mixture; a value of 0 to 1 is
sub-Gaussian with variance 1/4). Each version has half of the error rate; the difference is within the sum of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from motet.lab.loop.gate.paired import EPSILON
from motet.lab.loop.items import Item
from motet.lab.loop.judges import Verdict
from motet.lab.loop.settings import Canary

R = 10.0  # the bound is tightest at some ten times 4 R log(1/a) items or fewer; any number is valid


def radius(count: int, error: float) -> float:
    """How far a mean of `count` items may be from the truth; infinite without any."""
    if count == 0:
        return math.inf
    spread = count / 4 + R
    return math.sqrt(spread * math.log(spread / (R * error**2))) / count


def watched(
    before: Sequence[Item], after: Sequence[Item], minutes: float, canary: Canary, good: float
) -> Verdict | None:
    """None: nothing is sure yet, and its time is not over. Without enough feedback to both its time decides nothing."""
    scores = [[float(one.was_good(good)) for one in items] for items in (before, after)]
    counts = [len(one) for one in scores]
    means = [sum(one) / max(len(one), 1) for one in scores]
    room = sum(radius(count, canary.error / 2) for count in counts)
    difference = means[1] - means[0]
    told = f"{means[0]:.0%} of {counts[0]} good before, {means[1]:.0%} of {counts[1]} in the canary"
    if difference + room < 0:
        return Verdict(False, f"surely worse in live use: {told}")
    if difference - room > -canary.margin:
        return Verdict(True, f"surely no worse in live use than {canary.margin:g}: {told}")
    if minutes < canary.minutes or min(counts) < canary.least:
        return None
    if difference < -canary.margin - EPSILON:
        return Verdict(False, f"worse in live use after {canary.minutes:g} minutes: {told}")
    return Verdict(True, f"no complaint after {canary.minutes:g} minutes: {told}")
