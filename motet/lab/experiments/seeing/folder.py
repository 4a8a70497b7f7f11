"""The folder of a sweep, as it is read again by everything that shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from motet.errors import BadConfig
from motet.lab.experiments.progress import Accuracy, Finding, StepMetrics
from motet.lab.experiments.reading import lines, read_step
from motet.lab.experiments.sweep_folder import ASKED, CONFIG


@dataclass(frozen=True)
class Measurement:
    """A held-out accuracy, after this many steps."""

    step: int
    accuracy: Accuracy


@dataclass(frozen=True)
class SeenTurn:
    """What was inserted, then what was written, as text, and what that earned before the end."""

    inserted: str
    written: str
    reward: float


@dataclass(frozen=True)
class Rollout:
    """One episode, as it was recorded."""

    step: int
    problem: int
    member: int  # of its group
    reward: float
    outcome: str
    version: int
    turns: Sequence[SeenTurn]


@dataclass(frozen=True)
class SeenExperiment:
    """One experiment, as its folder tells it."""

    folder: Path
    config: dict[str, Any]
    steps: list[StepMetrics]
    measured: list[Measurement]
    noted: list[Finding]  # before the first step
    error: str  # the last line of what ended it, or nothing
    done: bool = True

    @property
    def name(self) -> str:
        return str(self.config.get("name", self.folder.name))

    @property
    def state(self) -> str:
        if self.error:
            return "failed"
        return "done" if self.done else f"{len(self.steps)} of {self.config.get('steps', '?')} steps"

    def rollouts(self) -> Iterator[Rollout]:
        """From the file, one by one: it may be large."""
        return map(_rollout, lines(self.folder / "rollouts.jsonl"))


@dataclass(frozen=True)
class SeenSweep:
    """All experiments of a folder, in the order in which they were asked for."""

    folder: Path
    model: str
    experiments: list[SeenExperiment]
    times: dict[str, float | None] = field(default_factory=dict)  # of the whole, by name, where it has ended


def read_sweep(folder: Path) -> SeenSweep:
    """Read a sweep's folder, or that of a single experiment. BadConfig: it is neither."""
    if (folder / CONFIG).is_file():
        return SeenSweep(folder, "", [read_experiment(folder)])
    found = sorted(config.parent for config in folder.glob(f"*/{CONFIG}"))
    if not found:
        raise BadConfig(f"{folder} holds no experiment: give a folder that `motet run` has written")
    asked = _json(folder / ASKED)
    order = {name: place for place, name in enumerate(asked.get("experiments", []))}
    found.sort(key=lambda one: order.get(one.name, len(order)))
    times = _json(folder / "summary.json").get("times", {})
    return SeenSweep(folder, str(asked.get("model") or ""), [read_experiment(one) for one in found], times)


def read_experiment(folder: Path) -> SeenExperiment:
    """Read one experiment's folder, whatever there is in it so far."""
    each = {one["when"]: tuple(one["rewards"]) for one in lines(folder / "held_out.jsonl")}
    steps, measured, noted = list[StepMetrics](), list[Measurement](), list[Finding]()
    for line in lines(folder / "metrics.jsonl"):
        kind = line.pop("kind")
        if kind == "step":
            steps.append(read_step(_known(StepMetrics, line)))
        elif kind == "held_out":
            when = line.pop("when")
            step = int(when) if when.isdigit() else len(steps)
            measured.append(Measurement(step, Accuracy(**_known(Accuracy, line), each=each.get(when, ()))))
        elif kind == "noted":
            noted.append(Finding(**_known(Finding, line)))
    done = bool(_json(folder / "state.json").get("done", False))
    return SeenExperiment(folder, _json(folder / CONFIG), steps, measured, noted, _error(folder / "error.txt"), done)


def _known(kind: type[Any], line: dict[str, Any]) -> dict[str, Any]:
    """What a record of this kind has: a folder may be of a version of Motet that tells more."""
    names = {one.name for one in fields(kind)}
    return {key: value for key, value in line.items() if key in names}


def _rollout(line: dict[str, Any]) -> Rollout:
    turns = [SeenTurn(one["read"], one["written"], one.get("reward", 0.0)) for one in line["turns"]]
    place = (line["step"], line["problem"], line["member"])
    return Rollout(*place, line["reward"], line["outcome"], line.get("version", 0), turns)


def _error(file: Path) -> str:
    if not file.is_file():
        return ""
    told = [line for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return told[-1] if told else ""


def _json(file: Path) -> dict[str, Any]:
    """A table, or an empty one where there is none (yet)."""
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}
