"""Products with the frozen base weights, every row through its own adapter.

An output element is one chain of multiply-adds over the inputs and then over the rank, so a row's bits depend on that
row alone; an adapter's gradient is one chain over its rows, so they may be cut into calls anywhere. On a CPU a kernel
does it all in one call (native/linear.cpp, native/backward.cpp); elsewhere it is reference/linear.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from motet.engine.ops.lora import LoraBatch
from motet.engine.ops.native import library, usable
from motet.engine.ops.reference import linear as reference
from motet.errors import EngineFault

PANEL = 32  # columns of a packed panel
NO_ADAPTERS = (0, None, None, None, None)


@dataclass(frozen=True, eq=False)
class BaseWeight:
    """A frozen weight (D_out, D_in), kept once, in the order that this device's product wants.

    `splits` are the parts' D_out. `data` is the plain tensor, or the panels of the kernels where `packed`.
    """

    data: Tensor
    packed: bool
    d_in: int
    d_out: int
    splits: tuple[int, ...]

    @property
    def dtype(self) -> torch.dtype:
        return self.data.dtype

    @classmethod
    def pack(cls, weight: Tensor, splits: tuple[int, ...], native: bool = True) -> BaseWeight:
        """From (D_out, D_in). With `native` off the kernels are not used."""
        d_out, d_in = weight.shape
        if sum(splits) != d_out:
            raise EngineFault(f"splits {splits} do not add up to the weight's {d_out} outputs")
        kernels = library() if native and usable(weight) else None
        if kernels is None:
            return cls(weight.contiguous(), False, d_in, d_out, tuple(splits))
        step = 4 // weight.element_size()
        data = torch.empty(-(-d_out // PANEL) * PANEL * (-(-d_in // step) * step), dtype=weight.dtype)
        plain = weight.contiguous()
        kernels.pack(weight.element_size(), plain.data_ptr(), d_out, d_in, data.data_ptr())
        return cls(data, True, d_in, d_out, tuple(splits))

    @cached_property
    def splits_array(self) -> np.ndarray:
        return np.asarray(self.splits, np.int64)

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """D_in, D_out, the number of parts and the address of their sizes, as the kernels take them."""
        return self.d_in, self.d_out, len(self.splits), self.splits_array.ctypes.data


def linear(
    x_ND: Tensor, weight: BaseWeight, lora: LoraBatch | None, site: int, out_dtype: torch.dtype | None = None
) -> Tensor:
    """y (N, D_out) = x W' plus the share of each row's adapter at this site, in float32, rounded once.

    Where x requires a gradient, the backward adds dA and dB to the adapters' `grad`, row by row in the rows' order.
    """
    if x_ND.requires_grad and torch.is_grad_enabled():
        return _Linear.apply(x_ND, weight, lora, site, out_dtype)
    return _forward(x_ND, weight, lora, site, out_dtype or x_ND.dtype)


def linear_backward(
    x_ND: Tensor, dy_NO: Tensor, weight: BaseWeight, lora: LoraBatch | None, site: int, needs_dx: bool = True
) -> Tensor | None:
    """dx (N, D_in) in x's type, or None without `needs_dx`; adds dA and dB to the adapters' `grad`.

    dy is float32 or of x's type (where bfloat16 products go by dot products, float32 is rounded for dx alone). `x` is
    what the forward was given.
    """
    if not weight.packed:
        return reference.backward(x_ND, dy_NO, weight.data, lora, site, needs_dx)
    kernels = library()
    assert kernels is not None
    x_ND, dy_NO = x_ND.contiguous(), dy_NO.contiguous()
    if dy_NO.dtype not in (torch.float32, weight.dtype):
        raise EngineFault(f"dy is {dy_NO.dtype}: give float32 or {weight.dtype}")
    dx = torch.empty_like(x_ND) if needs_dx else None
    if x_ND.shape[0] == 0:
        return dx
    d_in, d_out, parts, splits = weight.sizes
    kernels.linear_backward(
        kernels.kind(weight.dtype), dy_NO.dtype == torch.float32, x_ND.shape[0], d_in, d_out, parts, splits,
        x_ND.data_ptr(), dy_NO.data_ptr(), weight.data.data_ptr(), None if dx is None else dx.data_ptr(),
        *_adapters(lora, site),
    )  # fmt: skip
    return dx


def _adapters(lora: LoraBatch | None, site: int) -> tuple[int, Any, Any, Any, Any]:
    return NO_ADAPTERS if lora is None else lora.at_site(site)


def _forward(x_ND: Tensor, weight: BaseWeight, lora: LoraBatch | None, site: int, out_dtype: torch.dtype) -> Tensor:
    if not weight.packed:
        return reference.forward(x_ND, weight.data, lora, site, out_dtype)
    kernels = library()
    assert kernels is not None
    if x_ND.dtype != weight.dtype or out_dtype not in (torch.float32, weight.dtype):
        raise EngineFault(f"x is {x_ND.dtype} and the result {out_dtype}, but the weights are {weight.dtype}")
    if x_ND.stride(1) != 1:
        x_ND = x_ND.contiguous()
    rows = x_ND.shape[0]
    y = torch.empty((rows, weight.d_out), dtype=out_dtype)
    if rows:
        d_in, d_out, parts, splits = weight.sizes
        kernels.linear(
            kernels.kind(weight.dtype), out_dtype == torch.float32, rows, d_in, d_out, parts, splits,
            x_ND.data_ptr(), x_ND.stride(0), weight.data.data_ptr(), y.data_ptr(), *_adapters(lora, site),
        )  # fmt: skip
    return y


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: BaseWeight, lora: LoraBatch | None, site: int, out_dtype: torch.dtype | None
    ) -> Tensor:
        ctx.save_for_backward(x)
        ctx.rest = (weight, lora, site)
        return _forward(x, weight, lora, site, out_dtype or x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        weight, lora, site = ctx.rest
        return linear_backward(x, grads[0], weight, lora, site), None, None, None, None
