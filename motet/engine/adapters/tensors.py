"""Tensors out of a file, read and not mapped: whatever becomes of the file, or of its disk, they stay what they are."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load
from torch import Tensor


def read_tensors(file: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file, in memory of their own. OSError, SafetensorError."""
    return load(file.read_bytes())
