"""Self-distillation from a demonstration: the teacher is the student itself, shown how it is done.

    A_it = weight (log p(o_it | hint, o_i<t) - log q(o_it)),     f = rho A (importance sampling)

The student answers from the prompt alone; the same weights, or the base model's, with the demonstration in their
context judge every token. What is learned is the difference that the demonstration makes, on the student's own words,
so that less is forgotten than by imitation: Shenfeld et al. 2026, "Self-Distillation Enables Continual Learning",
arXiv:2601.19897. Episodes without a hint teach nothing.
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


class SelfDistillation(AlgorithmSettings):
    """Settings of self-distillation and the algorithm itself."""

    name: Literal["self_distillation"]
    judge: Literal["current", "base"] = "current"
    weight: float = Field(default=1.0, gt=0)

    async def batch(self, material: Sequence[Group], scorers: Scorers) -> Batch:
        shown = [one for group in material for one in group.trajectories if one.hint]
        judge = scorers.current if self.judge == "current" else scorers.base
        gains = await asyncio.gather(*(hinted_gains(one, judge) for one in shown))
        total = max(sum(one.written_count for one in shown), 1)
        lessons = [
            Lesson(policy_datum(one.tokens, np.asarray(one.logprobs), self.weight * gain / total))
            for one, gain in zip(shown, gains, strict=True)
        ]
        apart = -sum(float(gain.sum()) for gain in gains) / total
        left_out = sum(not any(one.hint for one in group.trajectories) for group in material)
        return Batch(lessons, "importance_sampling", left_out=left_out, metrics={"reverse_kl": apart})


async def hinted_gains(one: Trajectory, judge: Scorer) -> Array:
    """log p(token | hint) - log q of each token that was written, 0 of what was read; T."""
    after = len(one.turns[0].read)
    scored = await judge.logprobs([*one.hint, *one.tokens[after:]])
    known = np.concatenate([np.zeros(after), np.asarray(scored[len(one.hint) :])])
    return np.asarray(one.mask, np.float64) * (known - np.asarray(one.logprobs))
