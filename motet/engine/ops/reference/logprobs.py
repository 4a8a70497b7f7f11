"""Log-probabilities, their gradient by the logits, and drawing, row by row."""

from __future__ import annotations

import torch
from torch import Tensor


def logits_gradient_(logits: Tensor, log_z: Tensor, targets: Tensor, grad: Tensor) -> Tensor:
    """In place: onehot(targets) * grad - softmax * sum(grad)."""
    logits.sub_(log_z[:, None]).exp_().mul_(-grad.sum(1)[:, None])
    return logits.scatter_add_(1, targets, grad)


def draw_one(logits: Tensor, temperature: float, top_k: int, top_p: float, uniform: float) -> int:
    """One token of one row (V). temperature 0 is greedy."""
    if temperature <= 0:
        return int(logits.argmax())
    p, tokens = torch.softmax((logits / temperature).double(), 0).sort(descending=True, stable=True)
    if 0 < top_k < len(p):
        p = p[:top_k] / p[:top_k].sum()
    if top_p < 1:
        p = p[: int((p.cumsum(0) - p < top_p).sum().clamp(min=1))]
    kept, _ = tokens[: len(p)].sort()  # the running sum goes in the order of the tokens
    sums = torch.softmax((logits / temperature).double(), 0)[kept].cumsum(0)
    place = int(torch.searchsorted(sums, uniform * float(sums[-1]), right=True))
    return int(kept[min(place, len(kept) - 1)])
