"""KTO: single answers, each good or bad; what people gain or lose against a point of reference.

    L    = mean(w_y - v(y)),   v(y) = w_good sigmoid(beta (h - z)) for good ones, w_bad sigmoid(beta (z - h)) for bad
    z    = max(0, mean of h over answers to other prompts), without gradient: an estimate of KL(policy, base)

Ethayarajh et al. 2024, arXiv:2402.01306, equation 8. z is taken over the step's own answers, shifted by one so that
each answer stands behind another's prompt, as published; a step of one answer has z = 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from motet.lab.algorithms.base import AlgorithmSettings, Batch, Scorer, Scorers, Takes
from motet.lab.algorithms.examples import Completion, Judged
from motet.lab.algorithms.preference import preference_batch


class Kto(AlgorithmSettings):
    """Settings of KTO and the algorithm itself."""

    takes: ClassVar[Takes] = "judged"
    name: Literal["kto"]
    beta: float = Field(default=0.1, gt=0)
    good_weight: float = Field(default=1.0, gt=0)
    bad_weight: float = Field(default=1.0, gt=0)

    async def batch(self, material: Sequence[Judged], scorers: Scorers) -> Batch:
        reference = await self._reference([one.answer for one in material], scorers)
        good = torch.tensor([one.good for one in material])
        weight = torch.where(good, self.good_weight, self.bad_weight).double()
        sign = torch.where(good, 1.0, -1.0).double()

        def criterion(liking: Tensor) -> tuple[Tensor, dict[str, float]]:
            value = weight * torch.sigmoid(self.beta * sign * (liking - reference))
            told = {"reference": reference}
            for name, chosen in (("liking_good", good), ("liking_bad", ~good)):
                if bool(chosen.any()):
                    told[name] = float(liking.detach()[chosen].mean())
            return (weight - value).mean(), told

        return await preference_batch([one.answer for one in material], scorers, criterion)

    async def _reference(self, answers: Sequence[Completion], scorers: Scorers) -> float:
        """z: how much the policy likes answers that stand behind other prompts."""
        if len(answers) < 2:
            return 0.0
        shifted = [_exchanged(one, other) for one, other in zip(answers, [*answers[1:], answers[0]], strict=True)]
        liked = await asyncio.gather(*(_liking(one, scorers.current, scorers.base) for one in shifted))
        return max(0.0, float(np.mean(liked)))


def _exchanged(prompt_of: Completion, answer_of: Completion) -> Completion:
    """One's prompt with the other's answer."""
    prompt = prompt_of.tokens[: prompt_of.mask.index(True)] if True in prompt_of.mask else prompt_of.tokens
    answer = [token for token, learned in zip(answer_of.tokens, answer_of.mask, strict=True) if learned]
    return Completion.of(prompt, answer)


async def _liking(one: Completion, policy: Scorer, base: Scorer) -> float:
    mine, theirs = await asyncio.gather(policy.logprobs(one.tokens), base.logprobs(one.tokens))
    return float((one.weights * (np.asarray(mine) - np.asarray(theirs))).sum())
