"""The composition root: every command, each from the room it belongs to."""

from __future__ import annotations

import typer

from motet.bench.command import app as bench
from motet.lab.experiments.command import run
from motet.service.http.command import serve
from motet.service.http.keys_command import app as keys
from motet.service.status.command import status

app = typer.Typer(
    help="Many LoRA experiments learning at once on one warm base model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # a trace holds no key
)
app.command()(run)
app.command()(serve)
app.command()(status)
app.add_typer(bench, name="bench")
app.add_typer(keys, name="keys")


if __name__ == "__main__":
    app()
