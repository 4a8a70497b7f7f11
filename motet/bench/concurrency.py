"""The whole: the same experiments one after another and N at a time, as the published report counts them.

N = 1 on a warm engine is the serial run that every gain is measured against. Every level runs on a server of its own,
the same experiments in the same order; isolation says that their rewards must be equal at every level.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from motet.bench.common import show
from motet.engine.settings import MIXINGS
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.door import Door, choose_model
from motet.lab.experiments.evaluate import Baselines
from motet.lab.experiments.loop import run_experiment
from motet.lab.experiments.progress import Progress
from motet.lab.experiments.recipe import read_recipe
from motet.lab.experiments.record import Record
from motet.lab.experiments.server import background_server

COLUMNS = (
    "way",
    "last finishes, s",
    "gain",
    "mean experiment, s",
    "first, s",
    "spread, s",
    "step, s",
    "step slowdown",
    "rollout, s",
    "training, s",
    "publish, s",
    "sampling lane idle",
    "training lane idle",
    "final reward",
    "rewards as serial",
)


@dataclass(frozen=True)
class Way:
    """How the experiments are run: so many at a time, on a server with these flags."""

    name: str
    at_once: int
    flags: tuple[str, ...] = ()
    cold: bool = False  # a server for each experiment


@dataclass(frozen=True)
class Outcome:
    """What one way gave."""

    way: Way
    makespan: float
    rows: list[Progress]
    busy: dict[str, float]  # seconds of each lane


async def _pool(way: Way, experiments: list[Experiment], door: Door, folder: Path) -> list[Progress]:
    """All experiments, `at_once` of them at a time, begun in order."""
    gate = asyncio.Semaphore(way.at_once)
    rows = [Progress(one.name, one.steps) for one in experiments]

    async def one(experiment: Experiment, row: Progress) -> None:
        async with gate:
            record = Record(folder / experiment.folder, experiment)
            await run_experiment(experiment, door, row, record, Baselines())

    await asyncio.gather(*(one(e, r) for e, r in zip(experiments, rows, strict=True)))
    return rows


def _stats(address: str) -> dict[str, float]:
    request = urllib.request.Request(f"{address}/motet/v1/stats", headers={"X-API-Key": "tml-local"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        told: dict[str, float] = json.load(answer)["engine"]
        return told


def run_way(
    way: Way, experiments: list[Experiment], model: str | None, folder: Path, base_url: str | None = None
) -> Outcome:
    """Run the experiments one way, on a server of its own or on one that is there (base_url: Motet's, and open).

    A warm server's start is not counted, a cold one's is.
    """
    folder.mkdir(parents=True)
    if way.cold:
        return _run_cold(way, experiments, model, folder)
    own = background_server(model, folder, Console(quiet=True), way.flags)
    with own if base_url is None else nullcontext(base_url) as address:
        door = Door(address, "tml-local", choose_model(address, "tml-local", None))
        before, began = _stats(address), time.monotonic()
        rows = asyncio.run(_pool(way, experiments, door, folder))
        makespan, after = time.monotonic() - began, _stats(address)
    lanes = ("sampling", "training")
    busy = {lane: after[f"{lane}_busy_seconds"] - before[f"{lane}_busy_seconds"] for lane in lanes}
    return Outcome(way, makespan, rows, busy)


def _run_cold(way: Way, experiments: list[Experiment], model: str | None, folder: Path) -> Outcome:
    began, rows, busy = time.monotonic(), list[Progress](), {"sampling": 0.0, "training": 0.0}
    for experiment in experiments:
        warm = run_way(Way(way.name, 1, way.flags), [experiment], model, folder / experiment.folder)
        rows += warm.rows
        busy = {lane: seconds + warm.busy[lane] for lane, seconds in busy.items()}
    return Outcome(way, time.monotonic() - began, rows, busy)


def table_row(outcome: Outcome, serial: Outcome) -> list[object]:
    """The published columns, and ours."""
    rows, steps = outcome.rows, [step for row in outcome.rows for step in row.history]
    ends = np.array([row.ended for row in rows]) - min(row.began or 0.0 for row in rows)
    step = float(np.mean([one.seconds.total for one in steps]))
    serial_step = float(np.mean([one.seconds.total for row in serial.rows for one in row.history]))
    finals = [float(np.mean(row.rewards[-2:])) for row in rows]
    equal = [row.rewards == other.rewards for row, other in zip(rows, serial.rows, strict=True)]
    return [
        outcome.way.name,
        outcome.makespan,
        serial.makespan / outcome.makespan,
        float(np.mean([row.elapsed for row in rows])),
        float(ends.min()),
        float(ends.max() - ends.min()),
        step,
        step / serial_step,
        float(np.mean([one.seconds.sampling for one in steps])),
        float(np.mean([one.seconds.training + one.seconds.waiting for one in steps])),
        float(np.mean([one.seconds.publishing for one in steps])),
        1 - outcome.busy["sampling"] / outcome.makespan,
        1 - outcome.busy["training"] / outcome.makespan,
        f"{np.mean(finals):.3f} ± {np.std(finals):.3f}",
        f"{sum(equal)} of {len(equal)}",
    ]


def ways_for(levels: list[int], cold: bool, split: bool, ablation: bool) -> list[Way]:
    """Warm serial first; then what was asked for."""
    top = max(levels)
    ways = [Way("serial, warm", 1)]
    ways += [Way("serial, cold", 1, cold=True)] if cold else []
    ways += [Way(f"N = {n}", n) for n in levels if n > 1]
    if split:
        ways += [Way(f"N = {n}, a core each", n, ("--lanes", "split")) for n in levels]
    if ablation:
        ways += [Way(f"N = {top}, {mixing} apart", top, ("--apart", mixing)) for mixing in MIXINGS]
        ways.append(
            Way(f"N = {top}, all apart", top, tuple(word for mixing in MIXINGS for word in ("--apart", mixing)))
        )
    return ways


def bench_concurrency(file: Path, ways: list[Way], json_file: Path | None) -> None:
    """Run every way and print one row each."""
    sweep = read_recipe(file)
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as work:
        outcomes = []
        for number, way in enumerate(ways):
            print(f"{way.name} ...", file=sys.stderr, flush=True)
            outcomes.append(run_way(way, sweep.experiments, sweep.model, Path(work) / str(number)))
    rows = [table_row(outcome, outcomes[0]) for outcome in outcomes]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    title = f"{len(sweep.experiments)} experiments of {file.name} on {sweep.model}, commit {commit.stdout.strip()}"
    show(title, COLUMNS, rows, json_file)
