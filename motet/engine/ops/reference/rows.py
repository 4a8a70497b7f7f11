"""Norms, rotary positions and the gated activation, in float32, rounded where the kernels round."""

from __future__ import annotations

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Normed in float32, rounded, then times the weight."""
    normed = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    return normed.to(x.dtype) * weight


def rope(x_NHE: Tensor, cos_NE: Tensor, sin_NE: Tensor) -> Tensor:
    """x cos + rotate_half(x) sin, rounded once."""
    x, half = x_NHE.float(), x_NHE.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return (x * cos_NE[:, None].float() + turned * sin_NE[:, None].float()).to(x_NHE.dtype)


def swiglu(gate_up: Tensor) -> Tensor:
    """silu(gate) * up, rounded once."""
    gate, up = gate_up.float().chunk(2, -1)
    return (torch.nn.functional.silu(gate) * up).to(gate_up.dtype)
