"""On-policy distillation: the student writes, the teacher judges every token.

    A_it = weight (log p_teacher(o_it) - log q(o_it)),     f = rho A (importance sampling)

so that the expected gradient is that of the reverse KL(student, teacher), token by token: Agarwal et al. 2024, GKD,
arXiv:2306.13649; Lu et al. 2025, "On-Policy Distillation" (Thinking Machines). The teacher is the base model or a
checkpoint of this server, with a prompt of its own in front where one is given: then the student learns to do without
that prompt (Snell et al. 2022, "Learning by Distilling Context", arXiv:2209.15189). Rewards of the environment are
told, not learned from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from motet.lab.algorithms.base import AlgorithmSettings, Array, Batch, Lesson, Scorer, Scorers
from motet.lab.algorithms.datums import policy_datum
from motet.lab.envs.protocol import Group, Trajectory


class Distillation(AlgorithmSettings):
    """Settings of on-policy distillation and the algorithm itself."""

    name: Literal["distillation"]
    teacher: str | None = None  # a tinker:// path of sampler weights; None: the base model
    teacher_prompt: str = ""  # stands before all that the student reads, for the teacher alone
    weight: float = Field(default=1.0, gt=0)

    async def batch(self, material: Sequence[Group], scorers: Scorers) -> Batch:
        episodes = [one for group in material for one in group.trajectories]
        judged = await asyncio.gather(*(self._judged(one, scorers) for one in episodes))
        total = max(sum(one.written_count for one in episodes), 1)
        lessons = []
        for one, gain in zip(episodes, judged, strict=True):
            datum = policy_datum(one.tokens, np.asarray(one.logprobs), self.weight * gain / total)
            lessons.append(Lesson(datum))
        apart = -sum(float(gain.sum()) for gain in judged) / total
        return Batch(lessons, "importance_sampling", metrics={"reverse_kl": apart})

    async def _judged(self, one: Trajectory, scorers: Scorers) -> Array:
        assert scorers.teacher is not None, "the loop opens the teacher"
        return await token_gains(one, scorers.teacher, scorers.teacher_prefix)


async def token_gains(one: Trajectory, teacher: Scorer, prefix: Sequence[int]) -> Array:
    """log p_teacher - log q of each token that the student wrote, 0 of what it read; T. First it reads `prefix`."""
    scored = await teacher.logprobs([*prefix, *one.tokens])
    return np.asarray(one.mask, np.float64) * (np.asarray(scored[len(prefix) :]) - np.asarray(one.logprobs))
