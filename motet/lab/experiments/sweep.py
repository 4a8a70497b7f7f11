"""A whole sweep from its file to its report: find or start a server, run the experiments, report."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from motet.errors import BadConfig
from motet.lab.experiments.config import load
from motet.lab.experiments.door import Door, choose_model
from motet.lab.experiments.progress import Progress
from motet.lab.experiments.report import write_report
from motet.lab.experiments.runner import run_all
from motet.lab.experiments.server import background_server, check_server

INTERRUPTED = 130
ANY_KEY = "tml-local"  # an open server takes every key that the SDK takes


def run_file(file: Path, base_url: str | None, out: Path | None, console: Console) -> int:
    """Run a whole file; gives the exit code: 0, 1 when an experiment failed, 130 when interrupted.

    Raises BadConfig: the file, the server or the folder is wrong. EngineFault: the server did not start.
    """
    sweep = load(file)
    if base_url is not None:
        check_server(base_url)
    folder = out or Path("runs") / f"{sweep.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    _make(folder)
    shutil.copy(file, folder / "experiments.toml")
    rows = [Progress(one.name, one.steps) for one in sweep.experiments]
    place = nullcontext(base_url) if base_url else background_server(sweep.model, folder, console)
    interrupted = False
    try:
        with place as address:
            key = os.environ.get("TINKER_API_KEY", ANY_KEY)
            door = Door(address, key, choose_model(address, key, sweep.model if base_url else None))
            asyncio.run(run_all(sweep.experiments, rows, door, folder, console))
    except (KeyboardInterrupt, asyncio.CancelledError):
        interrupted = True
        console.print("stopped; what was measured is kept")
    write_report(rows, folder, console)
    if interrupted:
        return INTERRUPTED
    return 1 if any(row.state == "failed" for row in rows) else 0


def _make(folder: Path) -> None:
    """A new folder, or an empty one: nothing is mixed with what an earlier sweep measured."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise BadConfig(f"cannot write to {folder} ({error}): choose another --out") from None
    if taken:
        raise BadConfig(f"{folder} holds something already: choose another --out")
