"""The folder of a sweep: what was asked for and where, so that it can go on; and one client at a time."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from motet.errors import BadConfig
from motet.lab.experiments.config import Experiment, Sweep

COPY = "experiments"  # of the file, for people, under its own ending
ASKED = "sweep.json"
CONFIG = "config.json"  # of each experiment, in its own folder


@dataclass(frozen=True)
class Asked:
    """A sweep and the server it runs on. base_url: None is one of its own, on the folder's data."""

    sweep: Sweep
    base_url: str | None
    track: tuple[str, ...] = ()  # names of trackers


def make_folder(folder: Path, asked: Asked, file: Path | None) -> None:
    """A new folder, or an empty one: nothing is mixed with what an earlier sweep measured. BadConfig."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise BadConfig(f"cannot write to {folder} ({error}): choose another --out") from None
    if taken:
        raise BadConfig(f"{folder} holds something already: choose another --out, or go on with --resume {folder}")
    if file is not None:
        shutil.copy(file, folder / f"{COPY}{file.suffix}")
    sweep = asked.sweep
    for one in sweep.experiments:
        (folder / one.folder).mkdir()
        (folder / one.folder / CONFIG).write_text(one.model_dump_json(indent=2) + "\n", encoding="utf-8")
    told = {"name": sweep.name, "model": sweep.model, "base_url": asked.base_url, "track": asked.track}
    folders = [one.folder for one in sweep.experiments]
    partial = folder / f"{ASKED}.partial"  # the file is there once everything else is
    partial.write_text(json.dumps({**told, "experiments": folders}, indent=2) + "\n", encoding="utf-8")
    partial.rename(folder / ASKED)


def read_folder(folder: Path) -> Asked:
    """What was asked for. BadConfig: this is no folder of a sweep, or somebody has damaged it."""
    if not (folder / ASKED).is_file():
        raise BadConfig(f"{folder} is no folder of `motet run`: give the one that --out named")
    try:
        told = json.loads((folder / ASKED).read_text(encoding="utf-8"))
        experiments = [
            Experiment.model_validate_json((folder / name / CONFIG).read_bytes()) for name in told["experiments"]
        ]
        sweep = Sweep(told["name"], told["model"], experiments)
        return Asked(sweep, told["base_url"], tuple(told.get("track", ())))
    except (OSError, ValueError, KeyError, ValidationError) as error:
        raise BadConfig(f"{folder} is damaged or of another version of Motet: {error}") from None


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Nobody else runs this folder meanwhile; whoever is killed holds it no longer. BadConfig: somebody does."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadConfig(f"{folder} is being run already: wait until that ends, or stop it first") from None
        yield
