"""A whole sweep from its file to its report, or on from its folder: find or start a server, run, report."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from motet.errors import BadConfig
from motet.lab.experiments.config import Sweep, load
from motet.lab.experiments.door import Door, choose_model
from motet.lab.experiments.progress import Progress
from motet.lab.experiments.report import write_report
from motet.lab.experiments.runner import rows_of, run_all
from motet.lab.experiments.server import background_server, check_server, forget_server

INTERRUPTED = 130
ANY_KEY = "tml-local"  # an open server takes every key that the SDK takes
COPY = "experiments.toml"  # of the file, in the sweep's folder
PLACE = "sweep.json"


@dataclass(frozen=True)
class Place:
    """Which server a sweep runs on. base_url: None is one of its own, on the folder's data."""

    base_url: str | None
    model: str | None


def run_file(file: Path, base_url: str | None, out: Path | None, console: Console, model: str | None = None) -> int:
    """Run a whole file; gives the exit code: 0, 1 when an experiment failed or was stopped, 130 when interrupted.

    model: stands in for the file's own. Raises BadConfig: the file, the server or the folder is wrong. EngineFault: the
    server did not start.
    """
    sweep = load(file)
    place = Place(base_url, model or sweep.model)
    if base_url is not None:
        check_server(base_url)
    folder = out or Path("runs") / f"{sweep.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    _make(folder)
    shutil.copy(file, folder / COPY)
    (folder / PLACE).write_text(json.dumps(asdict(place)) + "\n", encoding="utf-8")
    return _run(sweep, place, folder, console)


def resume(folder: Path, base_url: str | None, console: Console) -> int:
    """Go on with every experiment of a folder that is not done, from its last checkpoint. As `run_file`."""
    if not (folder / COPY).is_file() or not (folder / PLACE).is_file():
        raise BadConfig(f"{folder} is no folder of `motet run`: give the one that --out named")
    sweep = load(folder / COPY)
    place = Place(**json.loads((folder / PLACE).read_text(encoding="utf-8")))
    if base_url is not None:
        place = Place(base_url, place.model)
    if place.base_url is not None:
        check_server(place.base_url)
    return _run(sweep, place, folder, console)


def _run(sweep: Sweep, place: Place, folder: Path, console: Console) -> int:
    rows = rows_of(sweep.experiments, folder)
    interrupted = False
    try:
        if any(row.state != "done" for row in rows):
            _run_on_server(sweep, rows, place, folder, console)
    except (KeyboardInterrupt, asyncio.CancelledError):
        interrupted = True
        console.print(f"stopped; what was measured is kept: go on with `motet run --resume {folder}`", soft_wrap=True)
    write_report(rows, folder, console)
    if interrupted:
        return INTERRUPTED
    if place.base_url is None and all(row.state == "done" for row in rows):
        forget_server(folder)
    return 1 if any(row.state in ("failed", "stopped") for row in rows) else 0


def _run_on_server(sweep: Sweep, rows: list[Progress], place: Place, folder: Path, console: Console) -> None:
    server: AbstractContextManager[str] = (
        nullcontext(place.base_url) if place.base_url else background_server(place.model, folder, console)
    )
    with server as address:
        key = os.environ.get("TINKER_API_KEY", ANY_KEY)
        door = Door(address, key, choose_model(address, key, place.model if place.base_url else None))
        asyncio.run(run_all(sweep.experiments, rows, door, folder, console))


def _make(folder: Path) -> None:
    """A new folder, or an empty one: nothing is mixed with what an earlier sweep measured."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise BadConfig(f"cannot write to {folder} ({error}): choose another --out") from None
    if taken:
        raise BadConfig(f"{folder} holds something already: choose another --out, or go on with --resume {folder}")
