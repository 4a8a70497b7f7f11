"""Many experiments side by side. One that fails never disturbs the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from motet.lab.experiments.config import Experiment
from motet.lab.experiments.door import Door
from motet.lab.experiments.evaluate import Baselines
from motet.lab.experiments.loop import run_experiment
from motet.lab.experiments.progress import Progress
from motet.lab.experiments.reading import read_progress
from motet.lab.experiments.record import Record
from motet.lab.experiments.seeing.differences import flat
from motet.lab.experiments.table import watch
from motet.lab.experiments.trackers.base import Subject
from motet.lab.experiments.trackers.choosing import Tracking


def rows_of(experiments: Sequence[Experiment], folder: Path) -> list[Progress]:
    """A row for each, with whatever an earlier life has recorded and kept."""
    rows = []
    for experiment in experiments:
        own = folder / experiment.folder
        if own.exists():
            Record(own, experiment)  # cuts away what belongs to no step that is kept
        rows.append(read_progress(own, experiment.name, experiment.steps))
    return rows


async def run_all(
    experiments: Sequence[Experiment],
    rows: Sequence[Progress],
    door: Door,
    folder: Path,
    console: Console,
    tracking: Tracking,
) -> None:
    """Run those that are not done concurrently until the last is over. Cancelled (Ctrl-C): each is stopped cleanly."""
    baselines = Baselines()
    watching = asyncio.create_task(watch(rows, console))
    running = [
        asyncio.create_task(_run_one(experiment, row, door, folder, baselines, tracking))
        for experiment, row in zip(experiments, rows, strict=True)
        if row.state != "done"
    ]
    try:
        await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _run_one(
    experiment: Experiment, row: Progress, door: Door, folder: Path, baselines: Baselines, tracking: Tracking
) -> None:
    """One experiment; whatever it raises becomes its row's error and its folder's error.txt."""
    record = Record(folder / experiment.folder, experiment)
    config = flat(experiment.model_dump(mode="json"))
    subject = Subject(folder.resolve().name, experiment.name, config, record.folder, len(row.history))
    running = asyncio.ensure_future(_tracked(experiment, door, row, record, baselines, tracking, subject))
    try:
        (error,) = await asyncio.gather(running, return_exceptions=True)
    except asyncio.CancelledError:
        row.enter("stopped")
        raise
    if isinstance(error, BaseException):
        record.error(error)
        row.error = _told(error)
        row.enter("failed")


async def _tracked(
    experiment: Experiment,
    door: Door,
    row: Progress,
    record: Record,
    baselines: Baselines,
    tracking: Tracking,
    subject: Subject,
) -> None:
    """Trackers may wait for a network to open and to close; nobody else waits with them."""
    record.trackers = await asyncio.to_thread(tracking, subject)
    try:
        await run_experiment(experiment, door, row, record, baselines)
    finally:
        await asyncio.to_thread(record.trackers.close)


def _told(error: BaseException) -> str:
    """An error in one line; the SDK's own ids and types are left to error.txt."""
    line = (str(error) or type(error).__name__).splitlines()[0]
    return line.partition(" for self.request_id=")[0].removeprefix("Request failed: ")
