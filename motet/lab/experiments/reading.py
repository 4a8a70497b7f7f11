"""An experiment's folder, read again: by whoever goes on with it, and by everything that shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from motet.lab.experiments.progress import Accuracy, Finding, Progress, Seconds, StepMetrics
from motet.lab.experiments.state import read_state


def lines(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of JSON; one that a crash has torn is no line, and no file has none."""
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def read_progress(folder: Path, name: str, steps: int) -> Progress:
    """What was recorded so far. Times of an earlier life are told by the steps alone."""
    row = Progress(name, steps)
    each = {one["when"]: tuple(one["rewards"]) for one in lines(folder / "held_out.jsonl")}
    for line in lines(folder / "metrics.jsonl"):
        kind = line.pop("kind")
        if kind == "step":
            row.history.append(read_step(line))
            continue
        if kind == "noted":
            row.noted.append(Finding(**line))
            continue
        when = line.pop("when")
        accuracy = Accuracy(**line, each=each.get(when, ()))
        if when == "start":
            row.start = accuracy
        else:
            row.end = accuracy
    state = read_state(folder)
    if state is not None and state.done:
        row.state = "done"
    return row


def read_step(line: dict[str, Any]) -> StepMetrics:
    """A line of metrics."""
    seconds = Seconds(**line.pop("seconds"))
    findings = [Finding(**one) for one in line.pop("findings")]
    return StepMetrics(**line, seconds=seconds, findings=findings)
