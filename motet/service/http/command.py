"""The command `motet serve`. Light to import: what a server needs is imported when one is started."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from motet.engine.types import Dtype
from motet.errors import MotetError
from motet.logs import start_logging
from motet.settings_file import Table


def serve(
    config: Annotated[
        Path | None, typer.Option(help="A settings file (TOML), see docs/operation.md; flags win over it.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A base model: a name or a folder.", show_default="SmolLM2-135M-Instruct")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help="The address to listen on; beyond loopback only with an API key.", show_default="127.0.0.1"),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="The port to listen on; 0 is any free one.", show_default="8000")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Where checkpoints and what does not fit in memory go.", show_default="motet-data"),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            help="An SQLAlchemy URL, such as postgresql+psycopg://…; default: SQLite in the data folder.",
            envvar="MOTET_DATABASE",
        ),
    ] = None,
    api_key: Annotated[
        list[str] | None,
        typer.Option(help="A key that may enter; may be given several times.", envvar="MOTET_API_KEYS"),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="A certificate chain (PEM): HTTPS, with --tls-key.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key (PEM).")] = None,
    dtype: Annotated[
        Dtype | None, typer.Option(help="auto (a short probe), float32 or bfloat16.", show_default="auto")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="The device of the base model: cpu, cuda, cuda:1.", show_default="cpu")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Cores to use; 0 is all.", show_default="0")] = None,
    lanes: Annotated[
        Literal["shared", "split"] | None,
        typer.Option(help="Sampler and trainer share all cores, or have half each.", show_default="shared"),
    ] = None,
    apart: Annotated[
        list[str] | None,
        typer.Option(help="For benchmarks: what runs are not to share; may be given several times."),
    ] = None,
    leash: Annotated[
        bool, typer.Option("--leash", help="Stop once standard input ends, as it does when whoever started this ends.")
    ] = False,
    log_format: Annotated[
        Literal["text", "json"] | None, typer.Option(help="Lines for people, or JSON.", show_default="text")
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option(help="What is logged; info has a line for each request.", show_default="info"),
    ] = None,
) -> None:
    """Serve a base model over the Tinker API; prints `ready ADDRESS` once it takes requests."""
    flags = {
        **_given(data_dir=data_dir),
        "engine": _given(model=model, dtype=dtype, device=device, threads=threads, lanes=lanes, apart=apart),
        "service": _given(
            host=host, port=port, database=database, api_keys=api_key, tls_cert=tls_cert, tls_key=tls_key
        ),
        "log": _given(format=log_format, level=log_level),
    }
    if leash:
        _stop_at_end_of_input()
    try:
        _serve(config, flags)
    except MotetError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:  # uvicorn raises it again once it has stopped in order
        raise typer.Exit(130) from None


def _serve(config: Path | None, flags: Table) -> None:
    from motet.engine.process import run_engine
    from motet.service.http.logs import log_context
    from motet.service.http.pinned import with_pinned_dtype
    from motet.service.http.serving import load
    from motet.service.http.supervisor import launch

    settings = load(config, flags)
    start_logging("service", settings.log, log_context)
    entry = partial(run_engine, with_pinned_dtype(settings.engine, settings.service.data_dir), settings.log)
    first = launch(entry)
    from motet.service.http.server import serve  # here: the engine's process warms up meanwhile

    asyncio.run(serve(settings.service, entry, first, typer.echo))


def _stop_at_end_of_input() -> None:
    """A pipe ends with whoever holds its other end, however that came to end."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="leash", daemon=True).start()


def _given(**flags: Any) -> Table:
    """The flags that were given."""
    return {name: value for name, value in flags.items() if value not in (None, [])}
