"""CISPO: the weight of a token is clipped, its gradient never: f = sg(clip(rho, 1 - low, 1 + high)) A log p.

A as in GRPO. MiniMax 2025, MiniMax-M1, arXiv:2506.13585, equations 4 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator
from tinker.types import LossFnType

from motet.lab.algorithms.policy import PolicyGradient, whitened


class Cispo(PolicyGradient):
    """Settings of CISPO and the algorithm itself."""

    name: Literal["cispo"]
    weight_low: float = Field(default=0.0, ge=0)  # the weight's bounds themselves, not their distance from 1
    weight_high: float = Field(default=4.0, gt=0)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.weight_low > self.weight_high:
            raise ValueError(f"weight_low = {self.weight_low} is above weight_high = {self.weight_high}")
        return self

    @property
    def api_loss(self) -> LossFnType:
        return "cispo"

    @property
    def api_config(self) -> dict[str, float]:
        return {"clip_low_threshold": self.weight_low, "clip_high_threshold": self.weight_high}

    def advantages(self, groups: Sequence[Sequence[float]]) -> list[list[float]]:
        return [whitened(rewards) for rewards in groups]
