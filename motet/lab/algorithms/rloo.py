"""RLOO: the baseline of an episode is the mean of the others of its group, so that it is unbiased.

    A_i = r_i - 1/(G-1) sum_{j != i} r_j = G/(G-1) (r_i - mean(r_1..r_G))

Kool et al. 2019; Ahmadian et al. 2024, "Back to Basics", arXiv:2402.14740, equation 7. No clip: plain importance
sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from motet.lab.algorithms.policy import PolicyGradient, centred


class Rloo(PolicyGradient):
    """Settings of RLOO and the algorithm itself."""

    name: Literal["rloo"]

    def advantages(self, groups: Sequence[Sequence[float]]) -> list[list[float]]:
        return [self._of_group(rewards) for rewards in groups]

    def _of_group(self, rewards: Sequence[float]) -> list[float]:
        others = len(rewards) - 1
        return list((centred(rewards) * len(rewards) / others).tolist()) if others else [0.0]
