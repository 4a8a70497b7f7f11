"""From logits to log-probabilities, the gradient by the logits, and a drawn token; one row at a time."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from motet.engine.ops.native import library, usable
from motet.engine.ops.reference import logprobs as reference


class DrawnTokens(NamedTuple):
    tokens: Tensor  # (N,) int64
    logprobs: Tensor  # (N,) float32


def log_normalizer(logits_NV: Tensor, native: bool = True) -> Tensor:
    """log of the sum of exp(logits) of every row (N), float32."""
    kernels = library() if native and usable(logits_NV) else None
    if kernels is None:
        return torch.logsumexp(logits_NV.float(), -1)
    logits, out = logits_NV.float().contiguous(), torch.empty(logits_NV.shape[0])
    kernels.log_normalizer(*logits.shape, logits.data_ptr(), out.data_ptr())
    return out


def target_logprobs(logits_NV: Tensor, targets: Tensor) -> Tensor:
    """log-probabilities of targets (N) or (N, k), of their shape."""
    lines = targets[:, None] if targets.ndim == 1 else targets
    return (logits_NV.gather(1, lines) - log_normalizer(logits_NV)[:, None]).view(targets.shape)


def logits_gradient_(logits_NV: Tensor, log_z_N: Tensor, targets: Tensor, grad: Tensor, native: bool = True) -> Tensor:
    """In place: logits become the loss's derivative by them, given that by the targets' log-probabilities.

    targets (N) or (N, k), int64; grad of their shape. A target may stand in a row more than once.
    """
    targets = targets.reshape(logits_NV.shape[0], -1).contiguous()
    grad = grad.to(torch.float32).reshape(targets.shape).contiguous()
    kernels = library() if native and usable(logits_NV) and logits_NV.is_contiguous() else None
    if kernels is None:
        return reference.logits_gradient_(logits_NV, log_z_N, targets, grad)
    kernels.logits_gradient(
        *logits_NV.shape, targets.shape[1], logits_NV.data_ptr(), log_z_N.contiguous().data_ptr(), targets.data_ptr(),
        grad.data_ptr(),
    )  # fmt: skip
    return logits_NV


def draw(
    logits_NV: Tensor, temperature_N: Tensor, top_k_N: Tensor, top_p_N: Tensor, uniform_N: Tensor, native: bool = True
) -> DrawnTokens:
    """One token a row, by the row's own uniform number, and its log-probability.

    top_k < 1 and top_p >= 1 are off; top_p counts within the top_k. The log-probability is that of the tempered
    distribution before top_k and top_p; at temperature 0 the token is the likeliest and nothing is tempered.
    """
    logits = logits_NV.float().contiguous()
    kernels = library() if native and usable(logits) else None
    how = (temperature_N.float(), top_k_N.long(), top_p_N.float(), uniform_N.float())
    if kernels is None:
        tempers = [t if t > 0 else 1.0 for t in how[0].tolist()]
        rows = zip(*(values.tolist() for values in how), strict=True)
        drawn = [reference.draw_one(row.cpu(), *each) for row, each in zip(logits, rows, strict=True)]
        tokens = torch.tensor(drawn, dtype=torch.int64, device=logits.device)
        tempered = logits / torch.tensor(tempers, device=logits.device)[:, None]
        return DrawnTokens(tokens, target_logprobs(tempered, tokens))
    tokens, logprobs = torch.empty(len(logits), dtype=torch.int64), torch.empty(len(logits))
    arrays = [values.contiguous() for values in how]
    kernels.draw(
        *logits.shape, logits.data_ptr(), *(a.data_ptr() for a in arrays), tokens.data_ptr(), logprobs.data_ptr()
    )
    return DrawnTokens(tokens, logprobs)
