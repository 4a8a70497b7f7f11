"""REINFORCE with a baseline: one number for the whole step, whatever the problem.

    A_i = r_i - b,     b = mean of all rewards of the step (or 0)

Williams 1992, "Simple Statistical Gradient-Following Algorithms", section 5. No group is needed: `samples = 1` works.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from motet.lab.algorithms.policy import PolicyGradient, centred, over_the_step


class Reinforce(PolicyGradient):
    """Settings of REINFORCE and the algorithm itself."""

    name: Literal["reinforce"]
    baseline: Literal["step", "none"] = "step"

    @property
    def by_group(self) -> bool:
        return False

    def advantages(self, groups: Sequence[Sequence[float]]) -> list[list[float]]:
        return over_the_step(groups, centred) if self.baseline == "step" else [list(rewards) for rewards in groups]
