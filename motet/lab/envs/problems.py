"""A problem with a number as its answer, and where problems come from."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

Split = Literal["train", "held_out", "example"]


@dataclass(frozen=True)
class Problem:
    """One question. `steps` are the expressions of a worked solution, in order; the last gives the answer."""

    question: str
    answer: Fraction
    steps: tuple[str, ...]


class Problems(Protocol):
    """A source of problems: the same index always gives the same problem; the splits are disjoint."""

    def problem(self, split: Split, index: int) -> Problem: ...
