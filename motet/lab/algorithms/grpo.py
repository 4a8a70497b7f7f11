"""GRPO: a group's own mean is the baseline.

    A_i = (r_i - mean(r_1..r_G)) / (std(r_1..r_G) + 1e-6)
    f   = min(rho A, clip(rho, 1-eps, 1+eps) A)

Shao et al. 2024, DeepSeekMath, arXiv:2402.03300, equations 3 and 4. Published with the mean over episodes; the mean
over tokens is the default here (see `policy`), `average = "episodes"` gives theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tinker.types import LossFnType

from motet.lab.algorithms.clipping import Clipped
from motet.lab.algorithms.policy import centred, whitened


class Grpo(Clipped):
    """Settings of GRPO and the algorithm itself."""

    name: Literal["grpo"] = "grpo"
    loss: Literal["ppo", "importance_sampling"] = "ppo"  # ppo is clipped importance sampling
    divide_by_std: bool = True

    @property
    def api_loss(self) -> LossFnType:
        return self.loss

    @property
    def api_config(self) -> dict[str, float]:
        return super().api_config if self.loss == "ppo" else {}

    def advantages(self, groups: Sequence[Sequence[float]]) -> list[list[float]]:
        if self.divide_by_std:
            return [whitened(rewards) for rewards in groups]
        return [centred(rewards).tolist() for rewards in groups]
