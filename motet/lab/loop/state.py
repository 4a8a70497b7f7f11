"""What a loop knows that the server does not keep: which run is learning, and what it has given.

Everything else is read from the server's records, so that a folder that is lost costs a round's learning and no more.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from motet.errors import BadConfig

NAME = "state.json"


@dataclass(frozen=True)
class Learning:
    """Of one training. `path` is empty until its checkpoint is there."""

    training: str
    session: str = ""  # at the server, cleared up where its client was killed
    path: str = ""  # tinker://RUN/sampler_weights/NAME
    learned: list[int] = field(default_factory=list)  # numbers of the items that are in it
    measured: dict[str, float] = field(default_factory=dict)  # of the learning, for the watch


def read_learning(folder: Path) -> Learning | None:
    """None where nothing was learned yet. BadConfig: the file is damaged."""
    file = folder / NAME
    if not file.exists():
        return None
    try:
        return Learning(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise BadConfig(f"{file} is damaged ({error}): remove it, and this round is learned again") from None


def write_learning(folder: Path, learning: Learning) -> None:
    """In the place of the one before, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{NAME}.partial"
    with partial.open("w", encoding="utf-8") as file:
        json.dump(asdict(learning), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, folder / NAME)
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
