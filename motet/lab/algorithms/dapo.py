"""DAPO: GRPO with a higher upper clip, no group without a signal, a mean over tokens, and a price for overlong
episodes.

    f = min(rho A, clip(rho, 1 - 0.2, 1 + 0.28) A),     A as in GRPO over r_i + p(|o_i|)
    p(l) = 0 up to L - C,   (L - C - l) / C up to L,   -1 beyond

Yu et al. 2025, arXiv:2503.14476, equations 8 to 13. Dynamic sampling: groups whose rewards are all equal are left
out, and the loop plays others in their place, up to `resample` times the step's problems in all. The mean is over the
groups that stay; where too few did, others stand for the missing ones, so that these do not get a louder voice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from motet.lab.algorithms.clipping import Clipped
from motet.lab.algorithms.policy import whitened
from motet.lab.envs.protocol import Group


class Dapo(Clipped):
    """Settings of DAPO and the algorithm itself."""

    name: Literal["dapo"]
    clip_high: float | None = Field(default=0.28, gt=0)
    resample: float = Field(default=2.0, ge=1)
    overlong: int = Field(default=0, ge=0)  # L, tokens written; 0: no price
    overlong_buffer: int = Field(default=16, ge=1)  # C

    @model_validator(mode="after")
    def _priced(self) -> Self:
        if 0 < self.overlong < self.overlong_buffer:
            raise ValueError(
                f"the price begins overlong_buffer = {self.overlong_buffer} tokens before overlong = {self.overlong}: "
                "set overlong_buffer lower"
            )
        return self

    def most_groups(self, problems: int) -> int:
        return int(self.resample * problems)

    def teaches(self, group: Group) -> bool:
        """Do its rewards differ, before any price (equation 11)? A penalty alone is no signal either."""
        return len(set(group.rewards)) > 1

    @property
    def least_samples(self) -> int:
        return 2

    def heard(self, material: Sequence[Group]) -> Sequence[Group]:
        taught = [group for group in material if self.teaches(group)]
        silent = [group for group in material if not self.teaches(group)]
        wanted = math.ceil(len(material) / self.resample)  # at least: no more than `most_groups` were played
        return [*taught, *silent[: max(wanted - len(taught), 0)]]

    def rewards(self, group: Group) -> list[float]:
        return [one.reward + self._price(one.written_count) for one in group.trajectories]

    def advantages(self, groups: Sequence[Sequence[float]]) -> list[list[float]]:
        return [whitened(rewards) for rewards in groups]

    def _price(self, tokens: int) -> float:
        if self.overlong == 0:
            return 0.0
        return float(np.clip((self.overlong - self.overlong_buffer - tokens) / self.overlong_buffer, -1.0, 0.0))
