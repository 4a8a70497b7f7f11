"""A base product with every row's adapter, forward and backward.

On a CPU every product runs in blocks of 64 rows, the last one padded, so that a row's bits do not depend on how many
rows there are. An adapter's gradient is added row by row, which is exact and slow: this is for checking, and for where
no compiler is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from motet.engine.ops.lora import AdapterTensors, LoraBatch, SitePlan, shrink_expand

BLOCK_ROWS = 64


def product(x_ND: Tensor, w_DO: Tensor) -> Tensor:
    """x W in float32, in blocks of rows that do not depend on their number."""
    if x_ND.device.type != "cpu":
        return x_ND.float() @ w_DO.float()
    rows, w = x_ND.shape[0], w_DO.float()
    padded = torch.nn.functional.pad(x_ND.float(), (0, 0, 0, -rows % BLOCK_ROWS))
    blocks = [block @ w for block in padded.split(BLOCK_ROWS)]
    return torch.cat(blocks)[:rows] if rows else padded @ w


def forward(x_ND: Tensor, weight_OD: Tensor, lora: LoraBatch | None, site: int, out_dtype: torch.dtype) -> Tensor:
    """y (N, O): the base product plus every adapter's share, rounded once."""
    y = product(x_ND, weight_OD.t())
    return (y if lora is None else shrink_expand(x_ND, y, lora, site)).to(out_dtype)


def backward(
    x_ND: Tensor, dy_NO: Tensor, weight_OD: Tensor, lora: LoraBatch | None, site: int, needs_dx: bool
) -> Tensor | None:
    """dx (N, D) in x's type, or None; dA and dB are added to the adapters' gradients."""
    dy = dy_NO.float()
    dx = product(dy, weight_OD) if needs_dx else None
    for rows, adapter in lora.segments() if lora is not None else ():
        plan = adapter.plan[site]
        if plan is None:
            continue
        share = _adapter_backward(x_ND[rows].float(), dy[rows], adapter, site, plan)
        if dx is not None:
            dx[rows] += share
    return None if dx is None else dx.to(x_ND.dtype)


def _adapter_backward(x: Tensor, dy: Tensor, adapter: AdapterTensors, site: int, plan: SitePlan) -> Tensor:
    """The adapter's share of dx; its gradients grow row by row."""
    a, b = adapter.a(site), adapter.b(site)
    assert a is not None and b is not None
    a, b, rank = a.float(), b.float(), adapter.rank
    parts = zip(dy.split(list(plan.splits), dim=1), b.split(list(plan.splits), dim=1), strict=True)
    dh = torch.cat([dy_part @ b_part.t() for dy_part, b_part in parts], dim=1) * adapter.scale
    if adapter.grad is not None:
        h = (x @ a) * adapter.scale
        grad_a, grad_b = adapter.a(site, adapter.grad), adapter.b(site, adapter.grad)
        assert grad_a is not None and grad_b is not None
        for row in range(x.shape[0]):
            grad_a += torch.outer(x[row], dh[row])
            pairs = zip(grad_b.split(list(plan.splits), dim=1), dy[row].split(list(plan.splits)), strict=True)
            for part, (grad_part, dy_part) in enumerate(pairs):
                grad_part += torch.outer(h[row, part * rank : (part + 1) * rank], dy_part)
    return dh @ a.t()
