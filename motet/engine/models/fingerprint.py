"""Which base model this is, and on what its numbers depend: equal fingerprints compute the same bits."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from motet import __version__
from motet.engine.models.loading import FolderWeights
from motet.engine.ops import native


def base_hash(weights: FolderWeights) -> str:
    """SHA-256 over the configuration and the weight files of a folder, by name."""
    digest = hashlib.sha256()
    for name in ("config.json", *weights.files):
        digest.update(f"{name}\0{_file_hash(weights.folder / name)}\n".encode())
    return digest.hexdigest()


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(base: str, dtype: torch.dtype, device: torch.device) -> str:
    """Of base model, type, device, torch, our own version, and the kernels with compiler and instruction set."""
    parts = [base, str(dtype), str(device), torch.__version__, __version__, native.fingerprint()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
