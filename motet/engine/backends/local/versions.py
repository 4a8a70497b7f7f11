"""Versions that came out of the store, or go into it, as PEFT folders."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from motet.engine.adapters.peft import load_peft, save_peft
from motet.engine.adapters.run import Version
from motet.engine.adapters.store import AdapterStore
from motet.engine.types import PublishResult


class StoredVersions:
    """See `base.Versions`. `base_name` is what a folder says that it belongs to; `dtype` the base model's."""

    def __init__(self, store: AdapterStore, base_name: str, dtype: torch.dtype) -> None:
        self._store = store
        self._base_name = base_name
        self._dtype = dtype

    def save(self, version: str, folder: Path) -> None:
        held = self._store.acquire(version)
        try:
            self._store.wait_for(held)
            save_peft(folder, held.layout, held.flat.float(), self._base_name)
        finally:
            self._store.release(held)

    def load(self, version: str, folder: Path, number: int, run: str | None = None) -> PublishResult:
        began = time.perf_counter()
        loaded = load_peft(folder, self._store.layout)
        flat = loaded.flat.to(self._dtype)
        return told(self._store.add_version(version, number, loaded.layout, flat, run), began)

    def drop(self, version: str) -> None:
        self._store.drop_version(version)

    def close(self) -> None:
        self._store.close()


def told(version: Version, began: float) -> PublishResult:
    """What is told of a version that has come to be; `began` is of time.perf_counter."""
    return PublishResult(version.name, version.number, version.content_hash, time.perf_counter() - began)
