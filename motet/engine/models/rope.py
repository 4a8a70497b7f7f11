"""Rotary position embeddings: cosines and sines by position, in the variants that the families use."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from motet.engine.models.config import ModelConfig


class RopeRows(NamedTuple):
    cos: Tensor  # (N, E)
    sin: Tensor  # (N, E)


class RopeTable:
    """cos and sin (N, E) for positions, computed once for the whole context, in float32, then rounded."""

    def __init__(self, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> None:
        positions = torch.arange(config.context, dtype=torch.float32)
        angles = torch.outer(positions, config.inverse_frequencies)
        both = torch.cat([angles, angles], dim=1)
        self._cos = (both.cos() * config.rope_scale).to(device, dtype)
        self._sin = (both.sin() * config.rope_scale).to(device, dtype)

    def at(self, positions_N: Tensor) -> RopeRows:
        """The rows of these positions."""
        return RopeRows(self._cos[positions_N], self._sin[positions_N])
