"""The published experiment again: its figures and ours, side by side.

Published are those of Trajectory, UC Berkeley Sky Lab and Anyscale, "Multi-LoRA training for continual learning"
(trajectory.ai/field-notes, 2026), taken on a node of eight H200: C-LoRA on SkyRL, one adapter trained at a time.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from motet.bench.common import show
from motet.bench.concurrency import COLUMNS as MEASURED
from motet.bench.concurrency import Outcome, Way, run_way, table_row
from motet.errors import BadConfig
from motet.lab.envs.settings import ToolSettings
from motet.lab.experiments.config import Experiment, Sweep
from motet.lab.experiments.recipe import read_recipe

SERIAL = 1


@dataclass(frozen=True)
class Level:
    """What was published for so many experiments at a time. None: it was not told."""

    at_once: int
    makespan: float | None  # seconds until the last experiment finishes
    mean_experiment: float | None  # seconds
    step: float | None  # seconds
    gain: float  # times sooner than one after another
    slowdown: float  # times that a step took longer


@dataclass(frozen=True)
class Published:
    """A whole experiment: eight runs of one base model, for instance."""

    model: str
    experiments: int
    levels: Sequence[Level]

    def at(self, at_once: int) -> Level | None:
        return next((one for one in self.levels if one.at_once == at_once), None)


# By the name of the environment.
PUBLISHED = {
    "gsm8k": Published(
        "Qwen3-4B-Instruct-2507",
        8,
        [
            Level(1, 15244, 8575, 191, 1.0, 1.0),
            Level(2, 8818, 5460, 215, 15244 / 8818, 215 / 191),
            Level(4, 6131, 4562, 303, 15244 / 6131, 303 / 191),
            Level(8, 5433, 5249, 500, 15244 / 5433, 500 / 191),
        ],
    ),
    "tau_bench_retail": Published(
        "Nemotron-3-Nano-30B-A3B",
        2,
        [Level(1, None, None, None, 1.0, 1.0), Level(2, None, None, None, 1.28, 1.57)],
    ),
}
COLUMNS = (
    "N",
    "whose",
    "last finishes, s",
    "gain",
    "mean experiment, s",
    "step, s",
    "step slowdown",
    "rewards as serial",
)
UNKNOWN = "–"


def theirs(level: Level) -> list[object]:
    """A row of what was published."""
    told = (level.makespan, level.gain, level.mean_experiment, level.step, level.slowdown)
    return [level.at_once, "published", *(UNKNOWN if one is None else one for one in told), UNKNOWN]


def ours(outcome: Outcome, serial: Outcome) -> list[object]:
    """The same columns, measured here."""
    measured = dict(zip(MEASURED, table_row(outcome, serial), strict=True))
    return [outcome.way.at_once, "ours", *(measured[column] for column in COLUMNS[2:])]


def find(sweep: Sweep) -> Published:
    """What was published of a sweep's environment. BadConfig: nothing."""
    names = {one.environment.name for one in sweep.experiments}
    found = [PUBLISHED[name] for name in names if name in PUBLISHED]
    if len(names) != 1 or not found:
        known = " and ".join(PUBLISHED)
        raise BadConfig(f"nothing was published of {', '.join(sorted(names))}; there are figures for {known}")
    return found[0]


def in_small(experiment: Experiment) -> Experiment:
    """One step on two problems, short turns, nothing measured: whether it runs. Calls are plain lines where they can
    be, since small models' templates take no tools."""
    environment = experiment.environment
    shorter: dict[str, object] = {"turns": 3, "turn_tokens": 24}
    if isinstance(environment, ToolSettings):
        shorter |= {"format": "plain", "examples": 1}
    changes = {"steps": 1, "problems": 2, "samples": 2, "eval_problems": 0, "eval_every": 0}
    return experiment.model_copy(update={**changes, "environment": environment.model_copy(update=shorter)})


@dataclass(frozen=True)
class Asked:
    """How the experiment is run again."""

    file: Path
    levels: Sequence[int]  # experiments at a time
    model: str | None  # in place of the file's
    small: bool
    flags: tuple[str, ...]  # of each level's server
    base_url: str | None  # one server for all levels, in place of one each


def bench_published(asked: Asked, json_file: Path | None) -> None:
    """Run every level, and print two rows for each: published and ours."""
    sweep = read_recipe(asked.file)
    published, model = find(sweep), asked.model or sweep.model
    experiments = [in_small(one) for one in sweep.experiments] if asked.small else sweep.experiments
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as work:
        outcomes = []
        for at_once in sorted({SERIAL, *asked.levels}):
            way = Way(f"N = {at_once}", at_once, asked.flags)
            print(f"{way.name} ...", file=sys.stderr, flush=True)
            outcomes.append(run_way(way, experiments, model, Path(work) / str(at_once), asked.base_url))
    rows = []
    for outcome in outcomes:
        level = published.at(outcome.way.at_once)
        rows += [theirs(level)] if level is not None else []
        rows.append(ours(outcome, outcomes[0]))
    small = ", in small: these times say only that it runs" if asked.small else ""
    title = f"published: {published.model}, {published.experiments} experiments, eight H200\nours: {model}{small}"
    show(f"{title}, {len(experiments)} experiments of {asked.file.name}", COLUMNS, rows, json_file)
