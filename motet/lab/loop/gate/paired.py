"""Two versions on the same questions: the mean difference, how sure it is, and whether it is above a bound.

The interval is the percentile bootstrap over questions (Efron 1979), for people to see. It is too narrow for few
questions, so what is decided is decided by the sign-flipping test (Fisher 1935, The Design of Experiments, section 21;
exact where differences are symmetric about the bound): under "the mean is no better than `bound`", each difference's
sign about the bound is a coin's. With n questions its smallest p-value is 2^-n: five can reach 0.05, four cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motet.errors import BadRequest

RESAMPLES = 4000
ALL_SIGNS = 14  # so many questions: all 2^n patterns of signs are looked at, beyond as many as RESAMPLES
EPSILON = 1e-12  # sums of the same differences in another order are equal


@dataclass(frozen=True)
class Difference:
    """Of scores, after - before, question by question. low, high: at the level asked for, two-sided."""

    questions: int
    before: float  # means
    after: float
    low: float
    high: float
    differences: tuple[float, ...]

    @property
    def mean(self) -> float:
        return self.after - self.before

    def chance_above(self, bound: float, seed: int) -> float:
        """The p-value of "its mean is no more than `bound`": small where it is surely above."""
        return _flipped(np.asarray(self.differences) - bound, seed)


def compare(before: Sequence[float], after: Sequence[float], level: float, seed: int) -> Difference:
    """Scores of the same questions in the same order. BadRequest: there are none, or not as many of both.

    level: of the interval's two ends together, as 0.05.
    """
    if len(before) != len(after) or not before:
        raise BadRequest(f"{len(before)} and {len(after)} scores cannot be compared: ask both the same questions")
    differences = np.asarray(after, np.float64) - np.asarray(before, np.float64)
    dice = np.random.default_rng(seed)
    drawn = dice.integers(len(differences), size=(RESAMPLES, len(differences)))
    low, high = np.quantile(differences[drawn].mean(axis=1), [level / 2, 1 - level / 2])
    means = float(np.mean(before)), float(np.mean(after))
    return Difference(len(differences), *means, float(low), float(high), tuple(differences.tolist()))


def _flipped(values: np.ndarray, seed: int) -> float:
    """How often signs by chance give a sum as large as that of `values`."""
    count = len(values)
    if count <= ALL_SIGNS:
        patterns = np.arange(2**count)[:, None] >> np.arange(count)
        signs = 1.0 - 2.0 * (patterns & 1)
        return float((signs @ values >= values.sum() - EPSILON).mean())
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(RESAMPLES, count))
    return float(((signs @ values >= values.sum() - EPSILON).sum() + 1) / (RESAMPLES + 1))
