"""The command `motet status`: a server as it is now, over HTTP like any client."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from motet.errors import BadConfig
from motet.service.status.frame import frame
from motet.service.status.reading import pace, read


def status(
    base_url: Annotated[
        str, typer.Option(help="The server to look at.", envvar="TINKER_BASE_URL")
    ] = "http://127.0.0.1:8000",
    api_key: Annotated[
        str, typer.Option(help="A key of that server; an open one takes any.", envvar="TINKER_API_KEY")
    ] = "status",
    every: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end.")] = False,
) -> None:
    """Look at a server: tenants, runs, tokens a second, lanes, queues, memory."""
    console = Console(markup=False, emoji=False, highlight=False)
    try:
        before = read(base_url, api_key)
        time.sleep(every)
        now = read(base_url, api_key)
        if once:
            console.print(frame(now, pace(before, now)))
            return
        with Live(frame(now, pace(before, now)), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                before, now = now, read(base_url, api_key)
                live.update(frame(now, pace(before, now)), refresh=True)
    except BadConfig as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        return
