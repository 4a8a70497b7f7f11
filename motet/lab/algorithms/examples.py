"""What algorithms learn from without an environment: examples out of a file, as tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motet.lab.algorithms.base import Array


@dataclass(frozen=True)
class Completion:
    """Tokens that were read, then tokens that are to be learned or judged; several turns may alternate."""

    tokens: list[int]
    mask: list[bool]  # True: to be learned

    @classmethod
    def of(cls, prompt: Sequence[int], written: Sequence[int]) -> Completion:
        return cls([*prompt, *written], [False] * len(prompt) + [True] * len(written))

    @property
    def weights(self) -> Array:
        return np.asarray(self.mask, np.float64)

    @property
    def written_count(self) -> int:
        """Tokens to be learned: the first token of all has nothing before it, and is none."""
        return sum(self.mask[1:])


@dataclass(frozen=True)
class Pair:
    """Two answers to one prompt."""

    chosen: Completion
    rejected: Completion


@dataclass(frozen=True)
class Judged:
    """An answer, and whether it was good."""

    answer: Completion
    good: bool
