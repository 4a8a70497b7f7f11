"""GRPO: a group's own mean is the baseline.

    A_i = (r_i - mean(r_1..r_G)) / (std(r_1..r_G) + 1e-6)
    L   = -1/M sum_i sum_t min(rho_it A_i, clip(rho_it, 1-eps, 1+eps) A_i),   rho_it = p(o_it) / q(o_it)

with p the trained policy and q the one that sampled (Shao et al. 2024, DeepSeekMath, arXiv:2402.03300,
equations 3 and 4, without the KL term). The trainer sums over tokens, so the advantages are divided here by
M, the number of tokens the policy wrote in the step: the loss is a mean over tokens (as in DAPO,
arXiv:2503.14476), and the same learning rate serves batches of any size. A group whose rewards are all equal
has no gradient: it is left out and counted, but its tokens count in M, so that the few groups that still
differ late in training do not get a louder voice (AdamW remembers how loud the earlier steps were).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from motet.lab.algorithms.base import Batch, Scorers
from motet.lab.algorithms.datums import rl_datum
from motet.lab.envs.protocol import Group


class Grpo(BaseModel):
    """Settings of GRPO and the algorithm itself."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    name: Literal["grpo"] = "grpo"
    loss: Literal["ppo", "importance_sampling"] = "ppo"  # ppo is clipped importance sampling
    clip: float = Field(default=0.2, gt=0)  # eps; of the ppo loss alone
    divide_by_std: bool = True

    def advantages(self, rewards: Sequence[float]) -> list[float]:
        """One advantage a member of a group, before the division by M."""
        centred = np.asarray(rewards) - np.mean(rewards)
        return [float(a) for a in (centred / (np.std(rewards) + 1e-6) if self.divide_by_std else centred)]

    async def batch(self, material: Sequence[Group], scorers: Scorers) -> Batch:
        """The datums of one step."""
        kept = [group for group in material if len(set(group.rewards)) > 1]
        written = sum(one.written_count for group in material for one in group.trajectories)
        data = [
            rl_datum(one, advantage / written)
            for group in kept
            for one, advantage in zip(group.trajectories, self.advantages(group.rewards), strict=True)
        ]
        clips = {"clip_low_threshold": 1 - self.clip, "clip_high_threshold": 1 + self.clip}
        return Batch(data, self.loss, clips if self.loss == "ppo" else {}, len(material) - len(kept))
