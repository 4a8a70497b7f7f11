"""A whole sweep from its file to its report, or on from its folder: find or start a server, run, report."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from motet.errors import EngineFault
from motet.lab.experiments.config import Sweep, parse
from motet.lab.experiments.door import Door, choose_model
from motet.lab.experiments.progress import Progress
from motet.lab.experiments.recipe import read_recipe
from motet.lab.experiments.report import SUMMARY, closing_table, write_report
from motet.lab.experiments.runner import rows_of, run_all
from motet.lab.experiments.seeing.page import write_page
from motet.lab.experiments.server import background_server, check_server, forget_server, until_gone
from motet.lab.experiments.sweep_folder import Asked, held, make_folder, read_folder
from motet.lab.experiments.trackers.choosing import choose

INTERRUPTED = 130
ANY_KEY = "tml-local"  # an open server takes every key that the SDK takes


def run_file(
    file: Path,
    base_url: str | None,
    out: Path | None,
    console: Console,
    model: str | None = None,
    track: tuple[str, ...] = (),
) -> int:
    """Run a whole file; gives the exit code: 0, 1 when an experiment failed or was stopped, 130 when interrupted.

    model: stands in for the file's own. Raises BadConfig: the file, the server or the folder is wrong. EngineFault: the
    server did not start, or died.
    """
    sweep = read_recipe(file)
    if model is not None:
        sweep = replace(sweep, model=model)
    return run_sweep(Asked(sweep, base_url, track), out, console, file)


def of_environment(file: Path, model: str | None) -> Sweep:
    """One experiment in an environment of one's own, everything else as it is by default."""
    return replace(parse({"environment": {"name": "file", "path": str(file.resolve())}}, file.stem), model=model)


def run_sweep(asked: Asked, out: Path | None, console: Console, file: Path | None = None) -> int:
    """The same without a file; one that there is goes into the folder as a copy."""
    choose(asked.track)  # says what is not installed before anything is made
    _notices(asked.sweep, console)
    if asked.base_url is not None:
        check_server(asked.base_url)
    folder = out or Path("runs") / f"{asked.sweep.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    make_folder(folder, asked, file)
    with held(folder):
        return _run(asked, folder, console)


def _notices(sweep: Sweep, console: Console) -> None:
    """What the environments say of themselves, each once. BadConfig: one cannot be had."""
    told = [one.environment.notice for one in sweep.experiments if one.data is None]
    for notice in dict.fromkeys(told):
        if notice is not None:
            console.print(notice, soft_wrap=True)


def resume(folder: Path, base_url: str | None, console: Console) -> int:
    """Go on with every experiment of a folder that is not done, from its last checkpoint. As `run_file`."""
    asked = read_folder(folder)
    if base_url is not None:
        asked = replace(asked, base_url=base_url)
    with held(folder):
        return _run(asked, folder, console)


def _run(asked: Asked, folder: Path, console: Console) -> int:
    rows = rows_of(asked.sweep.experiments, folder)
    ended: KeyboardInterrupt | asyncio.CancelledError | EngineFault | None = None
    try:
        if any(row.state != "done" for row in rows):
            _run_on_server(asked, rows, folder, console)
    except (KeyboardInterrupt, asyncio.CancelledError, EngineFault) as error:
        if not any(row.began for row in rows):
            raise
        ended = error
        console.print(f"stopped; what was measured is kept: go on with `motet run --resume {folder}`", soft_wrap=True)
    if any(row.began for row in rows) or not (folder / SUMMARY).exists():
        write_report(rows, folder, console)
    else:  # the times of those who ran stay as they are
        console.print(closing_table(rows), "nothing was left to do", sep="\n")
    console.print(f"to look at: {write_page(folder)}", soft_wrap=True)
    if isinstance(ended, EngineFault):
        raise ended
    if ended is not None:
        return INTERRUPTED
    if asked.base_url is None and all(row.state == "done" for row in rows):
        forget_server(folder)
    return 1 if any(row.state in ("failed", "stopped") for row in rows) else 0


def _run_on_server(asked: Asked, rows: list[Progress], folder: Path, console: Console) -> None:
    sweep = asked.sweep
    if asked.base_url is not None:
        check_server(asked.base_url)
    server: AbstractContextManager[str] = (
        nullcontext(asked.base_url) if asked.base_url else background_server(sweep.model, folder, console)
    )
    with server as address:
        key = os.environ.get("TINKER_API_KEY", ANY_KEY)
        door = Door(address, key, choose_model(address, key, sweep.model if asked.base_url else None))
        running = run_all(sweep.experiments, rows, door, folder, console, choose(asked.track))
        asyncio.run(running if asked.base_url else _while_it_lives(running, address, folder))


async def _while_it_lives(running: Coroutine[Any, Any, None], address: str, folder: Path) -> None:
    """Our own server is asked for by nobody else: once it is gone, waiting for it is of no use. EngineFault."""
    work, gone = asyncio.ensure_future(running), asyncio.ensure_future(until_gone(address))
    try:
        await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise EngineFault(f"the server died; its last words are in {folder / 'server.log'}")
        work.result()
    finally:
        for one in (work, gone):
            one.cancel()
        await asyncio.gather(work, gone, return_exceptions=True)
