"""On-policy distillation: the student writes, the teacher judges every token.

    A_it = weight (log p_teacher(o_it) - log p_now(o_it)) - mean,     f = rho A (importance sampling)

so that the expected gradient is that of the reverse KL(student, teacher), token by token: Agarwal et al. 2024, GKD,
arXiv:2306.13649; Lu et al. 2025, "On-Policy Distillation" (Thinking Machines). The teacher is the base model or a
checkpoint of this server, with a prompt of its own in front where one is given: then the student learns to do without
that prompt (Snell et al. 2022, "Learning by Distilling Context", arXiv:2209.15189). Rewards of the environment are
told, not learned from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from motet.lab.algorithms.base import Scorers
from motet.lab.algorithms.judging import Judge
from motet.lab.algorithms.policy import PolicyGradient


class Distillation(PolicyGradient):
    """Settings of on-policy distillation and the algorithm itself."""

    name: Literal["distillation"]
    teacher: str | None = Field(default=None, pattern="^tinker://")  # sampler weights; None: the base model
    teacher_prompt: str = ""  # stands before all that the student reads, for the teacher alone
    weight: float = Field(default=1.0, gt=0)

    @model_validator(mode="after")
    def _knows_more(self) -> Self:
        if self.teacher is None and not self.teacher_prompt:
            raise ValueError(
                "the base model teaches a fresh adapter nothing: set teacher to the tinker:// path of sampler weights, "
                "or teacher_prompt to what only the teacher reads"
            )
        return self

    @property
    def by_group(self) -> bool:
        return False

    def advantages(self, groups: Sequence[Sequence[float]]) -> list[list[float]]:
        return [[0.0] * len(rewards) for rewards in groups]

    def judges(self, scorers: Scorers) -> list[Judge]:
        assert scorers.teacher is not None, "the loop opens the teacher"
        return [*super().judges(scorers), Judge("reverse_kl", self.weight, scorers.teacher)]
