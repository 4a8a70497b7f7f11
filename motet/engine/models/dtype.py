"""float32 or bfloat16, by a short probe of the machine."""

from __future__ import annotations

import time

import torch

from motet.engine.ops.linear import BaseWeight, linear
from motet.engine.types import Dtype

ROWS, WIDTH = 64, 1024
WORTH = 0.9
"""bfloat16 is taken where it is at least nearly as fast: it halves the memory of weights and cached keys."""


def _rate(dtype: torch.dtype, device: str) -> float:
    """Products a second of a decode-like shape: the best of a few."""
    weight = BaseWeight.pack(torch.randn(WIDTH, WIDTH).to(device, dtype), (WIDTH,))
    x = torch.randn(ROWS, WIDTH).to(device, dtype)
    best = float("inf")
    for _ in range(6):
        began = time.perf_counter()
        linear(x, weight, None, 0).sum().item()
        best = min(best, time.perf_counter() - began)
    return 1 / best


@torch.no_grad()
def choose_dtype(asked: Dtype, device: str) -> torch.dtype:
    """The asked type, or the better one for this machine."""
    if asked != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16}[asked]
    faster = _rate(torch.bfloat16, device) >= WORTH * _rate(torch.float32, device)
    return torch.bfloat16 if faster else torch.float32
