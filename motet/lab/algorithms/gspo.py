"""GSPO: one ratio for a whole episode, the geometric mean of its tokens'.

    s_i = exp(1/|o_i| sum_t log(p(o_it) / q(o_it))),     f = min(s A, clip(s, 1-eps, 1+eps) A)

Zheng et al. 2025, arXiv:2507.18071, equations 5 to 7. The clip is far narrower than a token's: 3e-4 and 4e-4 as
published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import tinker
from pydantic import Field
from tinker import TensorData
from tinker.types import LossFnType

from motet.lab.algorithms.clipping import Clipped
from motet.lab.algorithms.corrections import Seen
from motet.lab.algorithms.policy import Average, whitened


class Gspo(Clipped):
    """Settings of GSPO and the algorithm itself."""

    name: Literal["gspo"]
    clip: float = Field(default=3e-4, gt=0)
    clip_high: float | None = Field(default=4e-4, gt=0)
    average: Average = "episodes"

    @property
    def api_loss(self) -> LossFnType:
        return "gspo"

    def advantages(self, groups: Sequence[Sequence[float]]) -> list[list[float]]:
        return [whitened(rewards) for rewards in groups]

    def _finished(self, datum: tinker.Datum, one: Seen) -> tinker.Datum:
        """The loss wants to know which tokens an episode's ratio is taken over."""
        mask = np.asarray(one.mask[1:], np.float32)
        datum.loss_fn_inputs["sequence_ratio_mask"] = TensorData.from_numpy(mask)
        return datum
