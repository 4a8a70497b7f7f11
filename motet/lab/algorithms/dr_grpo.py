"""Dr. GRPO: GRPO without its two biases, the division by a group's deviation and that by an episode's length.

    A_i = r_i - mean(r_1..r_G),     n = 1/(N L) with a constant L

Liu et al. 2025, "Understanding R1-Zero-Like Training", arXiv:2503.20783, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from motet.lab.algorithms.clipping import Clipped
from motet.lab.algorithms.policy import Average, centred


class DrGrpo(Clipped):
    """Settings of Dr. GRPO and the algorithm itself. `length` is L: the most tokens that an episode may have."""

    name: Literal["dr_grpo"]
    average: Average = "constant"

    def advantages(self, groups: Sequence[Sequence[float]]) -> list[list[float]]:
        return [centred(rewards).tolist() for rewards in groups]
