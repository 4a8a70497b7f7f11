"""Names and folders of checkpoints. A name can never leave the data folder."""

from __future__ import annotations

import re
import secrets
import shutil
from datetime import datetime, timedelta
from pathlib import Path

from motet.errors import BadRequest
from motet.service.http.registry import CheckpointKind, now

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
SHORTEST_TTL, LONGEST_TTL = 3600, 10 * 366 * 24 * 3600  # seconds


def check_name(name: str | None) -> str:
    """A checkpoint's name, or BadRequest."""
    if name is None or NAME.fullmatch(name) is None:
        raise BadRequest(
            f"{name!r} is no name for a checkpoint: use letters, digits, '.', '_' and '-', a letter or digit first, "
            "128 at most"
        )
    return name


def expiry(ttl_seconds: int | None) -> datetime | None:
    """When a checkpoint ends; None: never. BadRequest: out of bounds."""
    if ttl_seconds is None:
        return None
    if not SHORTEST_TTL <= ttl_seconds <= LONGEST_TTL:
        raise BadRequest(f"ttl_seconds is {ttl_seconds}: choose {SHORTEST_TTL} (an hour) to {LONGEST_TTL} (10 years)")
    return now() + timedelta(seconds=ttl_seconds)


def run_folder(run_id: str) -> str:
    """Where a run keeps its snapshots, gradients and nameless versions, relative to the data folder."""
    return f"runs/{run_id.replace(':', '_')}"


def new_folder(data_dir: Path, run_id: str, kind: CheckpointKind, name: str) -> Path:
    """A folder that does not stand yet; its parent does."""
    parent = data_dir / "checkpoints" / run_id.replace(":", "_") / kind
    parent.mkdir(parents=True, exist_ok=True)
    folder = parent / name
    return folder if not folder.exists() else parent / f"{name}~{secrets.token_hex(4)}"


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
