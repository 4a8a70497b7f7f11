"""The commands `motet report` and `motet show`. Light to import: everything else is imported when one is run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from motet.errors import BadConfig


def report(folder: Annotated[Path, typer.Argument(help="A folder that `motet run` has written.")]) -> None:
    """Make report.html anew, from what is in a sweep's folder so far."""
    from motet.lab.experiments.seeing.page import write_page

    typer.echo(write_page(folder))


def show(
    folder: Annotated[Path, typer.Argument(help="An experiment's folder, in that of its sweep.")],
    step: Annotated[int | None, typer.Option(help="Of which step. Default: the last.", show_default=False)] = None,
    problem: Annotated[int | None, typer.Option(help="Of this problem only.", show_default=False)] = None,
    failures: Annotated[bool, typer.Option("--failures", help="Only episodes without a reward.")] = False,
    best: Annotated[bool, typer.Option("--best", help="The highest rewards first.")] = False,
    worst: Annotated[bool, typer.Option("--worst", help="The lowest rewards first.")] = False,
    count: Annotated[int, typer.Option(min=1, help="At most so many episodes.")] = 4,
    prompt: Annotated[bool, typer.Option("--prompt", help="Prompts as a whole, not their ends only.")] = False,
) -> None:
    """Print episodes: what was inserted (┊) and what the policy wrote (┃), turn by turn."""
    from rich.console import Console

    from motet.lab.experiments.seeing.show import Choice, show_rollouts

    if best and worst:
        raise BadConfig("--best or --worst, not both")
    order = "best" if best else "worst" if worst else "written"
    console = Console(markup=False, emoji=False, highlight=False)
    show_rollouts(folder, Choice(step, problem, failures, order, count), prompt, console)
