"""DPO: the chosen answer must gain more over the base model than the rejected one.

    L = -mean log sigmoid(beta (h(x, chosen) - h(x, rejected)))

Rafailov et al. 2023, arXiv:2305.18290, equation 7; h as in `preference`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor
from torch.nn.functional import logsigmoid

from motet.lab.algorithms.base import AlgorithmSettings, Batch, Scorers, Takes
from motet.lab.algorithms.examples import Pair
from motet.lab.algorithms.preference import preference_batch


class Dpo(AlgorithmSettings):
    """Settings of DPO and the algorithm itself."""

    takes: ClassVar[Takes] = "pairs"
    name: Literal["dpo"]
    beta: float = Field(default=0.1, gt=0)

    async def batch(self, material: Sequence[Pair], scorers: Scorers) -> Batch:
        answers = [answer for pair in material for answer in (pair.chosen, pair.rejected)]
        return await preference_batch(answers, scorers, self._criterion)

    def _criterion(self, liking: Tensor) -> tuple[Tensor, dict[str, float]]:
        margin = self.beta * (liking[0::2] - liking[1::2])
        seen = margin.detach()
        told = {"margin": float(seen.mean()), "ordered": float((seen > 0).double().mean())}
        return -logsigmoid(margin).mean(), told
