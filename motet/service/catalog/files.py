"""Files of the catalog: written and fsynced before a row names them, removed after the last row that did."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

INLINE_BYTES = 64 * 1024  # what is larger goes into a file of its own


class Files:
    """Bytes by name in one folder. Names may hold any character."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, files: Mapping[str, bytes]) -> None:
        """Put whole files under their names, safe against a crash at any moment. OSError: no room."""
        for name, content in files.items():
            path = self._path(name)
            partial = path.with_suffix(".partial")
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        if files:
            sync_folder(self._folder)

    def read(self, name: str) -> bytes:
        return self._path(name).read_bytes()

    def has(self, name: str) -> bool:
        return self._path(name).exists()

    def remove(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def keep_only(self, names: set[str]) -> None:
        """Remove whatever no row names."""
        kept = {self._path(name) for name in names}
        for path in self._folder.iterdir():
            if path not in kept:
                path.unlink()

    def _path(self, name: str) -> Path:
        return self._folder / f"{quote(name, safe='')}.bin"


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
