"""float32 or bfloat16, by a short probe of the machine."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from motet.engine.ops.linear import BaseWeight, linear
from motet.engine.types import Dtype

ROWS, WIDTH, ROUNDS = 64, 1024, 8
WORTH = 0.75
"""bfloat16 halves the memory of weights and cached keys, so only a machine where it is clearly slower gets float32.

The margin is wide, so that a busy moment does not turn the choice from one start to the next.
"""


def _seconds(x_ND: Tensor, weight: BaseWeight) -> float:
    """Of processor time, which a busy machine does not stretch; by the clock on other devices."""
    now = time.process_time if x_ND.device.type == "cpu" else time.perf_counter
    began = now()
    linear(x_ND, weight, None, 0).sum().item()
    return now() - began


@torch.no_grad()
def choose_dtype(asked: Dtype, device: str) -> torch.dtype:
    """The asked type, or the better one for this machine: tens of milliseconds of products of a decode's shape.

    The types take turns and each is judged by its best round, so that what else runs here weighs on both alike.
    """
    if asked != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16}[asked]
    best = dict.fromkeys((torch.float32, torch.bfloat16), float("inf"))
    rows = {dtype: torch.ones(ROWS, WIDTH).to(device, dtype) for dtype in best}
    weights = {dtype: BaseWeight.pack(torch.ones(WIDTH, WIDTH).to(device, dtype), (WIDTH,)) for dtype in best}
    for _ in range(ROUNDS):
        for dtype, so_far in best.items():
            best[dtype] = min(so_far, _seconds(rows[dtype], weights[dtype]))
    return torch.bfloat16 if WORTH * best[torch.bfloat16] <= best[torch.float32] else torch.float32
