"""Random adapters with one site, for the tests of the operations."""

from __future__ import annotations

import torch
from torch import Tensor

from motet.engine.ops.lora import AdapterTensors, LoraBatch, SitePlan


def make_adapter(
    rank: int, d_in: int, splits: tuple[int, ...], dtype: torch.dtype, grad: bool = False
) -> AdapterTensors:
    a_size, b_size = d_in * len(splits) * rank, rank * sum(splits)
    flat = (torch.randn(a_size + b_size) * 0.1).to(dtype)
    plan = (SitePlan(0, a_size, d_in, splits),)
    return AdapterTensors(flat, plan, rank, 32 / rank, torch.randn(a_size + b_size) * 0.01 if grad else None)


def twin(adapter: AdapterTensors) -> AdapterTensors:
    """The same adapter with a gradient buffer of its own, holding the same numbers."""
    assert adapter.grad is not None
    return AdapterTensors(adapter.flat, adapter.plan, adapter.rank, adapter.scale, adapter.grad.clone())


def batch(bounds: list[int], adapters: list[AdapterTensors | None]) -> LoraBatch:
    return LoraBatch(tuple(bounds), tuple(adapters))


def double(tensor: Tensor) -> Tensor:
    return tensor.detach().double()
