"""After a sweep: reward curves as a picture, and the closing table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from motet.lab.experiments.progress import Progress

SUMMARY = "summary.json"


@dataclass(frozen=True)
class Times:
    """Seconds, from the start of the first experiment; held-out evaluation counts in. None: nothing ended."""

    makespan: float | None  # until the last experiment was over
    mean_experiment: float | None
    first_experiment: float | None  # until the first one was over
    mean_step: float | None

    @classmethod
    def of(cls, rows: Sequence[Progress]) -> Times:
        starts = [row.began for row in rows if row.began is not None]
        ends = [row.ended for row in rows if row.state == "done" and row.ended is not None]
        own = [row.elapsed for row in rows if row.state == "done" and row.elapsed is not None]
        steps = [row.step_seconds for row in rows if row.step_seconds is not None]
        done = bool(starts and ends)
        return cls(
            makespan=max(ends) - min(starts) if done else None,
            mean_experiment=float(np.mean(own)) if own else None,
            first_experiment=min(ends) - min(starts) if done else None,
            mean_step=float(np.mean(steps)) if steps else None,
        )


def write_report(rows: Sequence[Progress], folder: Path, console: Console) -> None:
    """Draw rewards.png, write summary.json and print the closing table."""
    times = Times.of(rows)
    draw_rewards(rows, folder / "rewards.png")
    summary = {"times": asdict(times), "experiments": [_summary(row) for row in rows]}
    (folder / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    console.print(closing_table(rows))
    told = {
        "makespan": times.makespan,
        "mean experiment": times.mean_experiment,
        "first experiment": times.first_experiment,
        "step": times.mean_step,
    }
    shown = [f"{name} {seconds:.1f} s" for name, seconds in told.items() if seconds is not None]
    console.print(", ".join(shown) or "nothing was finished")
    console.print(f"written to {folder}", soft_wrap=True)


def closing_table(rows: Sequence[Progress]) -> Table:
    """Accuracy on held-out problems at the start and at the end, and what it took."""
    columns = ("state", "held out: start", "end", "steps", "s a step", "s")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("experiment", min_width=8)  # the one that gives way
    for column in columns:
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(
            row.name,
            row.state,
            str(row.start or ""),
            str(row.end or ""),
            f"{len(row.history)}/{row.steps}",
            "" if row.step_seconds is None else f"{row.step_seconds:.2f}",
            "" if row.elapsed is None else f"{row.elapsed:.1f}",
        )
    return table


def draw_rewards(rows: Sequence[Progress], file: Path) -> None:
    """One curve an experiment: mean reward of each step."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for row in rows:
        axes.plot([one.step for one in row.history], row.rewards, marker=".", label=row.name)
    axes.set(xlabel="step", ylabel="mean reward", ylim=(-0.02, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(file, dpi=120)


def _summary(row: Progress) -> dict[str, object]:
    return {
        "name": row.name,
        "state": row.state,
        "error": row.error,
        "held_out_start": asdict(row.start) if row.start else None,
        "held_out_end": asdict(row.end) if row.end else None,
        "rewards": row.rewards,
        "seconds": row.elapsed,
        "step_seconds": row.step_seconds,
    }
