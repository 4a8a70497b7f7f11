"""Files and folders that outlive the process: written whole or not at all, and on disk once they have a name.

What is half written has a name that no caller may give: theirs are without "~".
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from safetensors import SafetensorError

from motet.errors import BadRequest, EngineFault

PARTIAL = "~partial"


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Gives a folder to write into; it is synced to disk and takes its name once everything stands in it.

    BadRequest where the name is taken. EngineFault where it cannot be written; then nothing of it is left.
    """
    partial = folder.with_name(folder.name + PARTIAL)
    try:
        if os.path.lexists(folder):
            raise BadRequest(f"{folder} exists already: choose another name")
        shutil.rmtree(partial, ignore_errors=True)
        _make_folder(partial)
        yield partial
        for path in [*partial.iterdir(), partial]:
            _sync(path)
        os.replace(partial, folder)
        _sync(folder.parent)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise EngineFault(f"{folder} cannot be written ({error}): make room, or look at who may write there") from error


@contextmanager
def whole_file(file: Path) -> Iterator[BinaryIO]:
    """Gives a file to write; on disk it takes its name, and the place of what had it before.

    EngineFault where it cannot be written; then what had the name is as it was.
    """
    partial = file.with_name(file.name + PARTIAL)
    try:
        _make_folder(file.parent)
        with partial.open("wb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(partial, file)
        _sync(file.parent)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise EngineFault(f"{file} cannot be written ({error}): make room, or look at who may write there") from error


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each named on disk."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
