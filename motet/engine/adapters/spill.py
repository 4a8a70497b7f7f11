"""Where a process keeps what does not fit in its memory: a folder of its own, which nobody reads after it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from motet.errors import BadConfig


def own_folder(root: Path) -> Path:
    """An empty folder below `root`, by the process's id; those of processes that have gone are removed.

    BadConfig where it cannot be had.
    """
    mine = root / str(os.getpid())
    try:
        root.mkdir(parents=True, exist_ok=True)
        for other in root.iterdir():
            if other == mine or not _alive(other.name):
                _remove(other)
        mine.mkdir()
    except OSError as error:
        raise BadConfig(f"{mine} cannot be used ({error}): choose another --data-dir") from error
    return mine


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
