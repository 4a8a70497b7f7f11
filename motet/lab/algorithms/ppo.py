"""PPO with its clip only: no critic, no penalty; advantages whitened over the whole step.

    A_i = (r_i - mean(r)) / (std(r) + 1e-6),     f = min(rho A, clip(rho, 1-eps, 1+eps) A)

Schulman et al. 2017, arXiv:1707.06347, equation 7; whitening over the batch as in REINFORCE++ (Hu 2025,
arXiv:2501.03262).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from motet.lab.algorithms.clipping import Clipped
from motet.lab.algorithms.policy import over_the_step, whitened


class Ppo(Clipped):
    """Settings of clipped PPO and the algorithm itself."""

    name: Literal["ppo"]

    @property
    def by_group(self) -> bool:
        return False

    def advantages(self, groups: Sequence[Sequence[float]]) -> list[list[float]]:
        return over_the_step(groups, whitened)
