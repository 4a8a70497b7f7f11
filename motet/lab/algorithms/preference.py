"""What the preference losses share: how much more a policy likes an answer than the base model does.

    h(x, y) = sum_t log p(y_t | x, y_<t) - log p_base(y_t | x, y_<t)

The gradient goes through `forward_backward_custom`: the SDK asks for log p, the loss here is plain torch over it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tinker
import torch
from torch import Tensor

from motet.lab.algorithms.base import Array, Batch, CustomLoss, Lesson, Scorers
from motet.lab.algorithms.datums import weighted_datum
from motet.lab.algorithms.examples import Completion

Criterion = Callable[[Tensor], tuple[Tensor, dict[str, float]]]  # h of each answer -> the loss and what to report


async def preference_batch(answers: Sequence[Completion], scorers: Scorers, criterion: Criterion) -> Batch:
    """A batch whose loss is `criterion` of the answers' h, in their order."""
    scored = await asyncio.gather(*(scorers.base.logprobs(one.tokens) for one in answers))
    lessons = [Lesson(weighted_datum(one.tokens, one.weights)) for one in answers]
    masks = [one.weights[1:] for one in answers]
    base = [np.asarray(logprobs)[1:] for logprobs in scored]
    return Batch(lessons, "cross_entropy", custom=_loss(masks, base, criterion))


def _loss(masks: Sequence[Array], base: Sequence[Array], criterion: Criterion) -> CustomLoss:
    def loss(data: list[tinker.Datum], logprobs: list[Tensor]) -> tuple[Any, dict[str, float]]:
        liking = [
            (torch.from_numpy(mask) * (p.double() - torch.from_numpy(b))).sum()
            for p, mask, b in zip(logprobs, masks, base, strict=True)
        ]
        value, metrics = criterion(torch.stack(liking))
        return value.float(), {**metrics, "loss": float(value.detach())}

    return loss
