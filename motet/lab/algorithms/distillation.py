"""On-policy distillation: the student writes, the teacher judges every token.

    A_it = weight (log p_teacher(o_it) - log p_now(o_it)),     f = rho A (importance sampling)

so that the expected gradient is that of the reverse KL(student, teacher), token by token: Agarwal et al. 2024, GKD,
arXiv:2306.13649; Lu et al. 2025, "On-Policy Distillation" (Thinking Machines). The teacher is the base model or a
checkpoint of this server, with a prompt of its own in front where one is given: then the student learns to do without
that prompt (Snell et al. 2022, "Learning by Distilling Context", arXiv:2209.15189). Rewards of the environment are
told, not learned from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from motet.lab.algorithms.base import Scorers
from motet.lab.algorithms.judging import Judge, as_it_was
from motet.lab.algorithms.policy import PolicyGradient
from motet.lab.envs.protocol import Group


class Distillation(PolicyGradient):
    """Settings of on-policy distillation and the algorithm itself."""

    name: Literal["distillation"]
    teacher: str | None = None  # a tinker:// path of sampler weights; None: the base model
    teacher_prompt: str = ""  # stands before all that the student reads, for the teacher alone
    weight: float = Field(default=1.0, gt=0)

    def teaches(self, group: Group) -> bool:
        """Always: a teacher has an opinion of everything."""
        return True

    def advantages(self, groups: Sequence[Sequence[float]]) -> list[list[float]]:
        return [[0.0] * len(rewards) for rewards in groups]

    def judges(self, scorers: Scorers) -> list[Judge]:
        assert scorers.teacher is not None, "the loop opens the teacher"
        prefix = scorers.teacher_prefix
        teacher = Judge("reverse_kl", self.weight, scorers.teacher, lambda one: [*prefix, *as_it_was(one)])
        return [*super().judges(scorers), teacher]
