"""The clipped ratio that several algorithms share."""

from __future__ import annotations

from pydantic import Field
from tinker.types import LossFnType

from motet.lab.algorithms.policy import PolicyGradient


class Clipped(PolicyGradient):
    """f = min(rho A, clip(rho, 1 - clip, 1 + clip_high) A) (Schulman et al. 2017, arXiv:1707.06347, equation 7)."""

    clip: float = Field(default=0.2, gt=0)
    clip_high: float | None = Field(default=None, gt=0)  # None: as clip

    @property
    def api_loss(self) -> LossFnType:
        return "ppo"

    @property
    def api_config(self) -> dict[str, float]:
        high = self.clip if self.clip_high is None else self.clip_high
        return {"clip_low_threshold": 1 - self.clip, "clip_high_threshold": 1 + high}
