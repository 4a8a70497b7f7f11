"""The command `motet loop`. Light to import: what a loop needs is imported when one runs."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from motet.client.connection import ANY_KEY, LOCAL
from motet.client.serving_command import ApiKey


def loop(
    file: Annotated[Path, typer.Argument(help="The policy of one adapter (TOML, docs/loop.md).")],
    once: Annotated[bool, typer.Option("--once", help="One round with what is there, to its end.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Where it keeps its state and log. Default: loops/NAME.", show_default=False)
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            help="The server; with a [simulation] one of its own is started where none is given.",
            envvar="TINKER_BASE_URL",
            show_default=LOCAL,
        ),
    ] = None,
    api_key: ApiKey = ANY_KEY,
) -> None:
    """Learn from the feedback to a name in service, round after round, promoting what is better."""
    from motet.lab.loop.log import Log
    from motet.lab.loop.loop import open_rounds, run, run_once
    from motet.lab.loop.settings import load
    from motet.lab.loop.simulated.show import show

    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    console = Console(markup=False, emoji=False, highlight=False)
    policy = load(file)
    if once:  # nothing is waited for
        policy = policy.model_copy(update={"when": policy.when.model_copy(update={"minutes": 0.0})})
    folder = out or Path("loops") / policy.name
    log = Log(folder, policy.name, console)
    try:
        if policy.simulation is not None:
            show(policy, policy.simulation, base_url, api_key, folder, log, console)
            return
        rounds = open_rounds(policy, base_url or LOCAL, api_key, folder, log)
        look_every = policy.when.look_every
        asyncio.run(run_once(rounds, look_every) if once else run(rounds, log, look_every))
    except KeyboardInterrupt:
        console.print("stopped; it goes on where it stands when it is started again")
