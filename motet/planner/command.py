"""The commands under `motet plan` that speak of time: what to expect, how many at a time, what if."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from motet.errors import BadConfig

if TYPE_CHECKING:
    from motet.planner.fit import Measured
    from motet.planner.makespan import Law, Waiting, Work
    from motet.planner.measured import Benchmark

app = typer.Typer(help="Look ahead: memory, time, how many experiments at once.", no_args_is_help=True)
Kind = Literal["shared", "apart", "exclusive"]
Alone = Annotated[float | None, typer.Option(help="Seconds of a step, one experiment at a time.")]
Two = Annotated[float | None, typer.Option(help="Seconds of a step, two at a time.")]
From = Annotated[
    Path | None, typer.Option("--from", help="What `motet bench concurrency --json` wrote, in their place.")
]
Way = Annotated[str, typer.Option(help="Which of the file's rows: what stands behind N, as `a core each`.")]
KindOption = Annotated[
    Kind, typer.Option(help="shared: all in step; apart: two batches; exclusive: one trains at a time.")
]


@app.command()
def experiments(
    alone: Alone = None,
    two: Two = None,
    measured: From = None,
    way: Way = "",
    kind: KindOption = "shared",
    count: Annotated[
        int | None, typer.Option(min=1, help="Experiments in all.", show_default="the file's, or 8")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of each.", show_default="the file's, or 10")] = None,
    slowest_step: Annotated[float | None, typer.Option(help="Seconds that a step may take.")] = None,
    beside: Annotated[Path | None, typer.Option(help="A benchmark's file to hold the prediction against.")] = None,
) -> None:
    """Makespan and step time of every level, from two measured ones, and which level to choose."""
    from motet.planner.advice import advise
    from motet.planner.makespan import Work
    from motet.planner.measured import read_benchmark

    bench = None if measured is None else read_benchmark(measured, way)
    done = bench.work if bench is not None and bench.work is not None else Work(count or 8, steps or 10)
    law = _law(kind, alone, two, bench, done)
    work = Work(count or done.experiments, steps or done.steps)
    table = law.table(work)
    if beside is None:
        advice = advise(table, slowest_step)
        _show(table, advice.level)
        typer.echo(f"{advice.level} at a time: {advice.why}")
    else:
        _compare(table, read_benchmark(beside, way))


def _law(kind: Kind, alone: float | None, two: float | None, bench: Benchmark | None, done: Work) -> Law:
    """Fitted on the levels 1 and 2, and nothing else. BadConfig."""
    from motet.planner.fit import FITS, Measured, with_outside

    if bench is not None:
        one, other = bench.at(1), bench.at(2)
    elif alone is not None and two is not None:
        one, other = Measured(1, alone), Measured(2, two)
    else:
        raise BadConfig("give --alone and --two, or --from a file of `motet bench concurrency --json`")
    return with_outside(FITS[kind](one, other), one, other, done)


@dataclass(frozen=True)
class _Column:
    """One figure, as the law says it and as it was measured."""

    name: str
    said: Callable[[Waiting], float]
    measured: Callable[[Measured], float | None]


COLUMNS = (
    _Column("last ends, s", lambda one: one.last, lambda one: one.last),
    _Column("first, s", lambda one: one.first, lambda one: one.first),
    _Column("its own, s", lambda one: one.own, lambda one: one.own),
    _Column("a step, s", lambda one: one.step, lambda one: one.step),
)


def _show(table: Sequence[Waiting], chosen: int) -> None:
    """Every level, with what it gains and what it costs."""
    from rich.console import Console
    from rich.table import Table

    heads = ("at a time", "last ends, s", "gain", "mean, s", "first, s", "a step, s", "slowdown")
    shown = Table(*heads, box=None, pad_edge=False, header_style="bold")
    for row in table:
        gain, slowdown = table[0].last / row.last, row.step / table[0].step
        numbers = (row.last, gain, row.mean, row.first, row.step, slowdown)
        shown.add_row(f"{row.level}{' <-' if row.level == chosen else ''}", *(f"{number:.3g}" for number in numbers))
    Console().print(shown)


def _compare(table: Sequence[Waiting], measured: Benchmark) -> None:
    """Measured levels, the law beside them."""
    from rich.console import Console
    from rich.table import Table

    heads = [head for column in COLUMNS for head in (column.name, "law")]
    shown = Table("at a time", *heads, box=None, pad_edge=False, header_style="bold")
    for level, row in sorted(measured.levels.items()):
        if level <= len(table):
            pairs = [(column.measured(row), column.said(table[level - 1])) for column in COLUMNS]
            shown.add_row(str(level), *(cell for was, said in pairs for cell in _pair(was, said)))
    Console().print(shown)


def _pair(measured: float | None, said: float) -> tuple[str, str]:
    if measured is None:
        return "", f"{said:.3g}"
    return f"{measured:.3g}", f"{said:.3g} ({said / measured - 1:+.1%})"


@app.command()
def published() -> None:
    """The published table, and what the law says of it, fitted on its first two rows."""
    from rich.console import Console
    from rich.table import Table

    from motet.planner.fit import Measured, fit_exclusive
    from motet.planner.published import TABLE, WORK

    law = fit_exclusive(*(Measured(row.level, row.step) for row in TABLE[:2])).table(WORK)
    shown = Table("at a time", "last ends, s", "law", "mean, s", "law", "a step, s", "law", box=None, pad_edge=False)
    for row in TABLE:
        said = law[row.level - 1]
        pairs = ((row.last, said.last), (row.mean, said.mean), (row.step, said.step))
        shown.add_row(str(row.level), *(c for was, law_says in pairs for c in (f"{was:g}", _pair(was, law_says)[1])))
    Console().print(shown)
