"""What benchmarks wrote, as levels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motet.errors import BadConfig
from motet.planner.fit import Measured
from motet.planner.makespan import Work


@dataclass(frozen=True)
class Benchmark:
    """The levels of one file, and of what work they are. work None: a file that does not tell it."""

    levels: dict[int, Measured]
    work: Work | None

    def at(self, level: int) -> Measured:
        """BadConfig: it was not measured."""
        if level not in self.levels:
            raise BadConfig(f"N = {level} was not measured: run `motet bench concurrency --levels 1,2 --json FILE`")
        return self.levels[level]


def read_benchmark(file: Path, way: str = "") -> Benchmark:
    """Of `motet bench concurrency --json` or `motet bench published --json`. BadConfig: another file.

    `way`: what stands behind the level in a row's name, such as "a core each"; "": the plain rows.
    """
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        rows = {level: _measured(level, row) for row in told["rows"] if (level := _level(row, way))}
        work = Work(told["work"]["experiments"], told["work"]["steps"]) if "work" in told else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadConfig(
            f"{file} cannot be used ({error!r}): name what `motet bench concurrency --json` wrote"
        ) from None
    if not rows:
        raise BadConfig(f"{file} has no rows of {way or 'N = 1, 2, ...'}: look at its ways")
    return Benchmark(rows, work)


def _level(row: dict[str, Any], way: str) -> int:
    """How many at a time; 0: not a row that is asked for."""
    if "N" in row:
        return int(row["N"]) if row["whose"] == "ours" and not way else 0
    if row["way"] == "serial, warm" and not way:
        return 1
    name, _, kind = str(row["way"]).partition(", ")
    return int(name.removeprefix("N = ")) if name.startswith("N = ") and kind == way else 0


def _measured(level: int, row: dict[str, Any]) -> Measured:
    return Measured(
        level,
        step=float(row["step, s"]),
        last=float(row["last finishes, s"]),
        first=row.get("first, s"),
        own=float(row["mean experiment, s"]),
        rollout=row.get("rollout, s"),
        training=row.get("training, s"),
    )
