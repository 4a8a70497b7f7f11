"""Experiments against each other, problem by problem.

Both answered the same held-out problems, so the difference is taken on each of them, and what makes a problem hard
for both falls out:

    d_i = y_i - x_i,    difference = mean(d),    standard error = sd(d) / sqrt(n)     (sd with n - 1)

and the interval holds the middle 95 percent of the means of problems drawn anew, with replacement (the percentile
bootstrap, Efron and Tibshirani 1993, chapter 13). Miller 2024, "Adding Error Bars to Evals", section 4.2, tells why
pairing is free precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from motet.lab.algorithms.settings import ALGORITHMS
from motet.lab.experiments.progress import Accuracy
from motet.lab.experiments.seeing.folder import SeenExperiment

DRAWS = 2000
MIDDLE = (2.5, 97.5)  # percent


@dataclass(frozen=True)
class Paired:
    """How much more the second got than the first, on the same problems."""

    difference: float
    error: float  # standard error of the difference
    low: float  # of the 95 % interval
    high: float
    problems: int
    better: int  # problems on which the second got more
    worse: int

    @property
    def clear(self) -> bool:
        """The interval leaves out that there is no difference."""
        return self.low > 0 or self.high < 0


def paired(first: Sequence[float], second: Sequence[float], seed: int = 0) -> Paired:
    """first, second: one reward a problem, in the same order; two problems or more."""
    d = np.asarray(second, np.float64) - np.asarray(first, np.float64)
    drawn = np.random.default_rng(seed).integers(len(d), size=(DRAWS, len(d)))
    low, high = np.percentile(d[drawn].mean(axis=1), MIDDLE)
    error = float(d.std(ddof=1) / np.sqrt(len(d)))
    return Paired(float(d.mean()), error, float(low), float(high), len(d), int((d > 0).sum()), int((d < 0).sum()))


def compare(first: SeenExperiment, second: SeenExperiment) -> Paired | None:
    """By their last measurement. None: not measured, or not on the same problems in the same way."""
    if not first.measured or not second.measured or exam_of(first.config) != exam_of(second.config):
        return None
    return _paired(first.measured[-1].accuracy, second.measured[-1].accuracy)


def gain(one: SeenExperiment) -> Paired | None:
    """What an experiment has learned: its last measurement against its first."""
    if len(one.measured) < 2:
        return None
    return _paired(one.measured[0].accuracy, one.measured[-1].accuracy)


def _paired(first: Accuracy, second: Accuracy) -> Paired | None:
    """On the problems that both have played to their end; None: two of them at least there are not."""
    if len(first.each) != len(second.each):
        return None
    both = [(x, y) for x, y in zip(first.each, second.each, strict=True) if x is not None and y is not None]
    return paired([x for x, _ in both], [y for _, y in both]) if len(both) > 1 else None


def exam_of(config: dict[str, Any]) -> tuple[object, ...]:
    """What decides which problems an experiment is measured on, and how."""
    settings = ALGORITHMS.get(str((config.get("algorithm") or {}).get("name")))
    examples = config.get("data")
    material = examples if examples is not None else config.get("environment")
    return (settings.takes if settings else None, material, config.get("temperature"))
