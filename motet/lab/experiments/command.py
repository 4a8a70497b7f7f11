"""The command `motet run`. Light to import: what an experiment needs is imported when one is run."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from motet.errors import BadConfig, MotetError


def run(
    file: Annotated[
        Path | None, typer.Argument(help="An experiment file (TOML, or Python with recipe()).", show_default=False)
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="A server that speaks the Tinker API. Default: start one.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: runs/NAME-TIME.")] = None,
    model: Annotated[str | None, typer.Option(help="A base model in place of the file's.")] = None,
    env: Annotated[
        Path | None,
        typer.Option(help="A Python file with an environment of your own, in place of a file.", show_default=False),
    ] = None,
    track: Annotated[
        list[str], typer.Option(help="Numbers go there too: tensorboard, trackio or wandb; may be repeated.")
    ] = [],  # noqa: B006  (typer reads it, nobody writes it)
    resume: Annotated[
        Path | None, typer.Option(help="A sweep's folder: go on with what is not done.", show_default=False)
    ] = None,
) -> None:
    """Run one or many experiments side by side."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # seconds of importing: nothing has begun
    from motet.lab.experiments import sweep
    from motet.lab.experiments.sweep_folder import Asked

    # A polite kill is a Ctrl-C, so that a server in the background never outlives its client.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    console = Console(markup=False, emoji=False, highlight=False)
    try:
        if sum(one is not None for one in (file, env, resume)) != 1:
            raise BadConfig("give one of: an experiment file, --env FILE.py, --resume FOLDER")
        if resume is not None:
            code = sweep.resume(resume, base_url, console)
        elif env is not None:
            code = sweep.run_sweep(Asked(sweep.of_environment(env, model), base_url, tuple(track)), out, console)
        else:
            assert file is not None
            code = sweep.run_file(file, base_url, out, console, model, tuple(track))
    except MotetError as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, emoji=False, soft_wrap=True)
        code = 2
    raise typer.Exit(code)
