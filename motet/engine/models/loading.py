"""Weights out of a Hugging Face folder, a tensor at a time, one file or many."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open
from torch import Tensor

from motet.errors import EngineFault, NotFound

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


class Header(NamedTuple):
    """What a file says of a tensor: its shape, and its type as safetensors writes it (`BF16`)."""

    shape: tuple[int, ...]
    dtype: str


class FolderWeights(Mapping[str, Tensor]):
    """The tensors of a folder by name, read when asked for and not kept.

    NotFound: no safetensors here, or no such tensor. EngineFault: a file is torn.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file_of = self._index()

    def __getitem__(self, name: str) -> Tensor:
        try:
            with safe_open(self._file(name), framework="pt") as file:
                tensor: Tensor = file.get_tensor(name)
                return tensor
        except (SafetensorError, OSError) as error:
            raise self._torn(self._file_of[name], error) from error

    @property
    def files(self) -> list[str]:
        """The names of the files that hold them."""
        return sorted(set(self._file_of.values()))

    def header(self, name: str) -> Header:
        """The header of a tensor, without its numbers."""
        try:
            with safe_open(self._file(name), framework="pt") as file:
                found = file.get_slice(name)
                return Header(tuple(found.get_shape()), str(found.get_dtype()))
        except (SafetensorError, OSError) as error:
            raise self._torn(self._file_of[name], error) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._file_of)

    def __len__(self) -> int:
        return len(self._file_of)

    def _file(self, name: str) -> Path:
        if name not in self._file_of:
            raise NotFound(f"{self.folder} lacks the weights {name}: the folder is incomplete, or of another family")
        return self.folder / self._file_of[name]

    def _index(self) -> dict[str, str]:
        if (self.folder / INDEX).is_file():
            try:
                names: dict[str, str] = json.loads((self.folder / INDEX).read_text())["weight_map"]
            except (ValueError, KeyError, TypeError) as error:
                raise self._torn(INDEX, error) from error
            missing = sorted({file for file in names.values() if not (self.folder / file).is_file()})
            if missing:
                raise NotFound(f"{self.folder} lacks {', '.join(missing)}, which its index names: fetch it again")
            return names
        if not (self.folder / SINGLE).is_file():
            raise NotFound(f"{self.folder} has no {SINGLE}: a model folder needs safetensors weights")
        try:
            with safe_open(self.folder / SINGLE, framework="pt") as file:
                return dict.fromkeys(file.keys(), SINGLE)
        except (SafetensorError, OSError) as error:
            raise self._torn(SINGLE, error) from error

    def _torn(self, file: str, error: Exception) -> EngineFault:
        return EngineFault(f"{self.folder / file} cannot be read ({error}): fetch it again")
