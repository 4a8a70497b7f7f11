"""The composition root: every command, each from the room it belongs to."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from motet.bench.command import app as bench
from motet.client.feedback_command import app as feedback
from motet.client.serving_command import app as serving
from motet.errors import MotetError
from motet.lab.experiments.command import run
from motet.lab.experiments.rates_command import rates_with
from motet.lab.experiments.seeing.command import report, show
from motet.lab.loop.command import loop
from motet.planner.command import app as plan
from motet.planner.memory_command import memory_with
from motet.service.http.command import serve
from motet.service.http.keys_command import app as keys
from motet.service.status.command import status


class Told(TyperGroup):
    """What a person can mend is one line, whatever the command."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except MotetError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(2) from None


def _located(model: str) -> str:
    """The folder of a base model that comes with Motet; of any other only the configuration is asked for."""
    from motet.engine.models.base import POCKET, resolve
    from motet.engine.models.default import DEFAULT_MODEL

    return str(resolve(model)) if model in (POCKET, DEFAULT_MODEL) else model


app = typer.Typer(
    cls=Told,
    help="Many LoRA experiments learning at once on one warm base model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # a trace holds no key
)
app.command()(run)
app.command()(show)
app.command()(report)
app.command()(rates_with(_located))
plan.command("memory")(memory_with(_located))
app.command()(loop)
app.command()(serve)
app.command()(status)
app.add_typer(bench, name="bench")
app.add_typer(keys, name="keys")
app.add_typer(plan, name="plan")
app.add_typer(serving, name="serving")
app.add_typer(feedback, name="feedback")


if __name__ == "__main__":
    app()
