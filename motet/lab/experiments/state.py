"""Where an experiment stands, so that it can go on exactly there: a checkpoint of its run, and a small file beside it.

The file is written whole or not at all, after the checkpoint that it names; what was recorded after it is cut away
when the experiment goes on, and made again.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from motet.errors import BadConfig

NAME = "state.json"


@dataclass(frozen=True)
class State:
    """After a step. `path` is of the run's checkpoint; `sizes` of the records, in bytes."""

    step: int
    version: int  # published so far
    path: str  # tinker://…
    position: dict[str, Any]  # of the source
    sizes: dict[str, int] = field(default_factory=dict)
    done: bool = False  # nothing is left to do


def read_state(folder: Path) -> State | None:
    """None where an experiment has not come so far. BadConfig: the file is damaged."""
    file = folder / NAME
    if not file.exists():
        return None
    try:
        return State(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise BadConfig(f"{file} is damaged ({error}): remove that folder to begin this experiment again") from None


def write_state(folder: Path, state: State) -> None:
    """Put it in the place of the one before, safe against a crash at any moment."""
    partial = folder / f"{NAME}.partial"
    with partial.open("w", encoding="utf-8") as file:
        json.dump(asdict(state), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, folder / NAME)
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
