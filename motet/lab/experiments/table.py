"""The live table: one row an experiment. Without a terminal, one line a step instead."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from motet.lab.experiments.progress import Progress

BARS = "▁▂▃▄▅▆▇█"
CURVE_WIDTH = 16
REFRESH_SECONDS = 0.25
COLOURS = {"done": "green", "failed": "red", "stopped": "yellow", "running": "cyan"}
COLUMNS = (
    "experiment",
    "step",
    "reward",
    "curve",
    "tokens/s",
    "sampling",
    "training",
    "publishing",
    "waiting",
    "version",
    "mismatch",
    "finding",
)


def sparkline(values: Sequence[float], width: int = CURVE_WIDTH) -> str:
    """Values from 0 to 1 as small bars, the last `width` of them."""
    top = len(BARS) - 1
    return "".join(BARS[round(min(max(value, 0.0), 1.0) * top)] for value in values[-width:])


def render(rows: Sequence[Progress]) -> Table:
    """The table as it stands now. Times are seconds of the last step."""
    table = Table(*COLUMNS, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Progress) -> list[Text | str]:
    last = row.last
    finding = row.error or (last.findings[0] if last and last.findings else "")
    state = Text(f"{len(row.history)}/{row.steps} {row.state}", style=COLOURS.get(row.state, ""))
    if last is None:
        return [row.name, state, *[""] * (len(COLUMNS) - 3), Text(finding, style="red")]
    spent = last.seconds
    return [
        row.name,
        state,
        f"{last.reward:.2f}",
        sparkline(row.rewards),
        f"{last.tokens_per_second:.0f}",
        *(f"{s:.2f}" for s in (spent.sampling, spent.training, spent.publishing, spent.waiting)),
        str(last.version),
        "" if last.mismatch_mean is None else f"{last.mismatch_mean:.4f} / {last.mismatch_max:.3f}",
        Text(finding, style="red" if row.error else "yellow"),
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
        line = "  ".join(str(cell) for cell in _cells(row) if str(cell))
        if line != shown[row.name] and row.state != "waiting":
            shown[row.name] = line
            console.print(line, soft_wrap=True, highlight=False, markup=False)
