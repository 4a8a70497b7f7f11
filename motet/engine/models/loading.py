"""Weights out of a Hugging Face folder, a tensor at a time, one file or many."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from motet.errors import EngineFault, NotFound

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


class FolderWeights(Mapping[str, Tensor]):
    """The tensors of a folder by name, read when asked for and not kept.

    NotFound: no safetensors here, or no such tensor. EngineFault: a file is torn.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file_of = self._index()

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._file_of:
            raise NotFound(f"{self._folder} lacks the weights {name}: the folder is incomplete, or of another family")
        try:
            with safe_open(self._folder / self._file_of[name], framework="pt") as file:
                tensor: Tensor = file.get_tensor(name)
                return tensor
        except (SafetensorError, OSError) as error:
            raise self._torn(self._file_of[name], error) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._file_of)

    def __len__(self) -> int:
        return len(self._file_of)

    def _index(self) -> dict[str, str]:
        if (self._folder / INDEX).is_file():
            names: dict[str, str] = json.loads((self._folder / INDEX).read_text())["weight_map"]
            missing = sorted({file for file in names.values() if not (self._folder / file).is_file()})
            if missing:
                raise NotFound(f"{self._folder} lacks {', '.join(missing)}, which its index names: fetch it again")
            return names
        if not (self._folder / SINGLE).is_file():
            raise NotFound(f"{self._folder} has no {SINGLE}: a model folder needs safetensors weights")
        try:
            with safe_open(self._folder / SINGLE, framework="pt") as file:
                return dict.fromkeys(file.keys(), SINGLE)
        except (SafetensorError, OSError) as error:
            raise self._torn(SINGLE, error) from error

    def _torn(self, file: str, error: Exception) -> EngineFault:
        return EngineFault(f"{self._folder / file} cannot be read ({error}): fetch it again")
