"""What works on one row at a time, with autograd: norms, rotary positions, the gated activation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from motet.engine.ops.native import Library, library, usable
from motet.engine.ops.reference import rows as reference


def rms_norm(x: Tensor, weight: Tensor, eps: float, native: bool = True) -> Tensor:
    """x / rms(x) over the last dimension, rounded, times the weight (frozen: no gradient to it)."""
    if not (native and usable(x)):
        return reference.rms_norm(x, weight, eps)
    if x.requires_grad and torch.is_grad_enabled():
        return _RmsNorm.apply(x, weight, eps)
    return _rms_norm(x, weight, eps)


def rope(x_NHE: Tensor, cos_NE: Tensor, sin_NE: Tensor, native: bool = True) -> Tensor:
    """x cos + rotate_half(x) sin for every head, rounded once; cos and sin are of x's type."""
    if not (native and usable(x_NHE)):
        return reference.rope(x_NHE, cos_NE, sin_NE)
    if x_NHE.requires_grad and torch.is_grad_enabled():
        return _Rope.apply(x_NHE, cos_NE, sin_NE)
    return _rope(x_NHE, cos_NE, sin_NE, 0)


def swiglu(gate_up: Tensor, native: bool = True) -> Tensor:
    """silu(gate) * up of rows (N, 2F), rounded once."""
    if not (native and usable(gate_up)):
        return reference.swiglu(gate_up)
    if gate_up.requires_grad and torch.is_grad_enabled():
        return _Swiglu.apply(gate_up)
    return _swiglu(gate_up)


def _kernels() -> Library:
    kernels = library()
    assert kernels is not None
    return kernels


def _lines(x: Tensor) -> Tensor:
    """Rows (N, D) of the last dimension; a copy only where their distances differ."""
    return x.reshape(-1, x.shape[-1]) if x.stride(-1) == 1 else x.contiguous().view(-1, x.shape[-1])


def _rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    rows, y = _lines(x), torch.empty(x.shape, dtype=x.dtype)
    _kernels().rms_norm(
        x.dtype == torch.bfloat16, *rows.shape, rows.data_ptr(), rows.stride(0), weight.data_ptr(), eps, y.data_ptr()
    )
    return y


def _rope(x: Tensor, cos: Tensor, sin: Tensor, back: int) -> Tensor:
    if x.stride(2) != 1 or x.stride(1) != x.shape[2]:
        x = x.contiguous()
    cos, sin, y = cos.contiguous(), sin.contiguous(), torch.empty(x.shape, dtype=x.dtype)
    _kernels().rope(
        x.dtype == torch.bfloat16,
        *x.shape,
        x.data_ptr(),
        x.stride(0),
        cos.data_ptr(),
        sin.data_ptr(),
        back,
        y.data_ptr(),
    )
    return y


def _swiglu(gate_up: Tensor) -> Tensor:
    gate_up = gate_up.contiguous()
    rows, width = gate_up.shape
    y = torch.empty((rows, width // 2), dtype=gate_up.dtype)
    _kernels().swiglu(gate_up.dtype == torch.bfloat16, rows, width // 2, gate_up.data_ptr(), y.data_ptr())
    return y


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return _rms_norm(x, weight, eps)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        rows, dy, dx = _lines(x), grads[0].contiguous(), torch.empty(x.shape, dtype=x.dtype)
        _kernels().rms_norm_backward(
            x.dtype == torch.bfloat16, *rows.shape, rows.data_ptr(), rows.stride(0), weight.data_ptr(), ctx.eps,
            dy.data_ptr(), dx.data_ptr(),
        )  # fmt: skip
        return dx, None, None


class _Rope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _rope(x, cos, sin, 0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        cos, sin = ctx.saved_tensors
        return _rope(grads[0], cos, sin, 1), None, None


class _Swiglu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        ctx.save_for_backward(gate_up)
        return _swiglu(gate_up)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        gate_up = ctx.saved_tensors[0].contiguous()
        dy, dx = grads[0].contiguous(), torch.empty_like(gate_up)
        rows, width = gate_up.shape
        _kernels().swiglu_backward(
            dy.dtype == torch.bfloat16, rows, width // 2, gate_up.data_ptr(), dy.data_ptr(), dx.data_ptr()
        )
        return dx
