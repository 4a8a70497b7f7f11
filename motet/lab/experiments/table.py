"""The live table: one row an experiment. Without a terminal, one line a step instead."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from motet.lab.experiments.progress import Progress, State

BARS = "▁▂▃▄▅▆▇█"
CURVE_WIDTH = 10
REFRESH_SECONDS = 0.25
COLOURS = {"done": "green", "failed": "red", "stopped": "yellow", "running": "cyan"}
WIDTHS = {
    "step": 5,
    "reward": 6,
    "curve": CURVE_WIDTH,
    "tok/s": 5,
    "sample": 6,
    "train": 5,
    "publish": 7,
    "wait": 4,
    "ver": 3,
    "mismatch": 7,
}
STAGES: dict[State, str] = {"waiting": "-", "evaluating": "eval", "stopped": "stop", "failed": "fail"}


def sparkline(values: Sequence[float], width: int = CURVE_WIDTH) -> str:
    """Values from 0 to 1 as small bars, the last `width` of them."""
    top = len(BARS) - 1
    return "".join(BARS[round(min(max(value, 0.0), 1.0) * top)] for value in values[-width:])


def render(rows: Sequence[Progress]) -> Group:
    """The table as it stands now, and the findings below it. Times are seconds of the last step (`Seconds`)."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("experiment", min_width=8)  # the one that gives way
    for column, width in WIDTHS.items():
        table.add_column(column, no_wrap=True, min_width=width, justify="left" if column == "curve" else "right")
    for row in rows:
        table.add_row(row.name, Text(_stage(row), style=COLOURS.get(row.state, "")), *_numbers(row))
    told = [Text(f"{row.name}: {finding(row)}", "red" if row.error else "yellow") for row in rows if finding(row)]
    return Group(table, *told)


def finding(row: Progress) -> str:
    """What a person should know of this experiment now: its error, or the first finding of its last step."""
    findings = row.last.findings if row.last else row.noted
    return row.error or next((one.line for one in findings), "")


def _stage(row: Progress) -> str:
    return STAGES.get(row.state, f"{len(row.history)}/{row.steps}")


def _numbers(row: Progress) -> list[str]:
    """The cells from reward on."""
    last = row.last
    if last is None:
        return []
    spent, played = last.seconds, last.groups > 0  # examples of a file earn no reward and are not sampled
    return [
        f"{last.reward:.2f}" if played else "",
        sparkline(row.rewards) if played else "",
        f"{last.tokens_per_second:.0f}" if played else "",
        f"{spent.sampling:.2f}",
        f"{spent.training:.2f}",
        f"{spent.publishing:.3f}",
        f"{spent.waiting:.2f}",
        str(last.version),
        "" if last.mismatch_mean is None else f"{last.mismatch_mean:.1e}",
    ]


async def watch(rows: Sequence[Progress], console: Console) -> None:
    """Show the rows until cancelled, and once more then."""
    if not console.is_terminal:
        await _print_steps(rows, console)
        return
    with Live(render(rows), console=console, auto_refresh=False) as live:
        try:
            while True:
                await asyncio.sleep(REFRESH_SECONDS)
                live.update(render(rows), refresh=True)
        finally:
            live.update(render(rows), refresh=True)


async def _print_steps(rows: Sequence[Progress], console: Console) -> None:
    """For logs: a line when a step is over or a state changes."""
    shown = {row.name: "" for row in rows}
    try:
        while True:
            _print_news(rows, shown, console)
            await asyncio.sleep(REFRESH_SECONDS)
    finally:
        _print_news(rows, shown, console)


def _print_news(rows: Sequence[Progress], shown: dict[str, str], console: Console) -> None:
    for row in rows:
        line = "  ".join(one for one in (row.name, _stage(row), *_numbers(row), finding(row)) if one)
        if line != shown[row.name] and row.state != "waiting":
            shown[row.name] = line
            console.print(line, soft_wrap=True)
