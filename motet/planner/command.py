"""The commands under `motet plan`: what fits, what to expect, how many at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from motet.errors import BadConfig

app = typer.Typer(help="Look ahead: memory, time, how many experiments at once.", no_args_is_help=True)
Kind = Literal["shared", "exclusive"]


@app.command()
def experiments(
    alone: Annotated[float | None, typer.Option(help="Seconds of a step, one experiment at a time.")] = None,
    two: Annotated[float | None, typer.Option(help="Seconds of a step, two at a time.")] = None,
    measured: Annotated[
        Path | None, typer.Option("--from", help="What `motet bench concurrency --json` wrote, in place of both.")
    ] = None,
    kind: Annotated[
        Kind, typer.Option(help="shared: all mixed on the same cores; exclusive: one adapter trains at a time.")
    ] = "shared",
    count: Annotated[int, typer.Option(min=1, help="Experiments in all.")] = 8,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each.")] = 10,
    slowest_step: Annotated[float | None, typer.Option(help="Seconds that a step may take.")] = None,
) -> None:
    """Makespan and step time of every level, from two measured ones, and which level to choose."""
    from motet.planner.advice import advise
    from motet.planner.fit import fit_exclusive, fit_shared
    from motet.planner.law import solve
    from motet.planner.makespan import Work

    if measured is not None:
        alone, two = read_steps(measured)
    if alone is None or two is None:
        raise BadConfig("give --alone and --two, or --from a file of `motet bench concurrency --json`")
    stations = (fit_shared if kind == "shared" else fit_exclusive)(alone, two)
    advice = advise(solve(stations, count), Work(count, steps), slowest_step)
    table = Table("at a time", "last ends, s", "mean, s", "first, s", "a step, s", box=None, pad_edge=False)
    for row in advice.table:
        mark = " <-" if row.level == advice.level else ""
        numbers = (row.last, row.mean, row.first, row.step)
        table.add_row(f"{row.level}{mark}", *(f"{number:.3g}" for number in numbers))
    Console().print(table)
    typer.echo(f"{advice.level} at a time: {advice.why}")


def read_steps(file: Path) -> tuple[float, float]:
    """Seconds of a step alone and for two. BadConfig: the file has not both."""
    try:
        rows = {row["way"]: row["step, s"] for row in json.loads(file.read_text(encoding="utf-8"))["rows"]}
        return float(rows["serial, warm"]), float(rows["N = 2"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadConfig(f"{file} has no rows `serial, warm` and `N = 2` ({error!r}): run with --levels 1,2") from None


@app.command()
def published() -> None:
    """The published table, and what the law says of it, fitted on its first two rows."""
    from motet.planner.fit import fit_exclusive
    from motet.planner.law import solve
    from motet.planner.makespan import waiting
    from motet.planner.published import TABLE, WORK

    points = solve(fit_exclusive(TABLE[0].step, TABLE[1].step), WORK.experiments)
    table = Table("at a time", "last ends, s", "law", "mean, s", "law", "a step, s", "law", box=None, pad_edge=False)
    for row in TABLE:
        said = waiting(points, WORK, row.level)
        pairs = ((row.last, said.last), (row.mean, said.mean), (row.step, said.step))
        cells = [cell for told, law in pairs for cell in (f"{told:.0f}", f"{law:.0f} ({law / told - 1:+.1%})")]
        table.add_row(str(row.level), *cells)
    Console().print(table)
