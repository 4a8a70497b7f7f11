"""The composition root: the commands, and the one place that knows both the service and the engine."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from motet.bench.command import app as bench
from motet.engine.settings import EngineSettings
from motet.engine.types import Dtype
from motet.errors import MotetError
from motet.lab.experiments.command import run

app = typer.Typer(
    help="Many LoRA experiments learning at once on one warm base model.", no_args_is_help=True, add_completion=False
)
app.command()(run)
app.add_typer(bench, name="bench")


@app.command()
def serve(
    model: Annotated[str, typer.Option(help="A base model: a name or a folder.")] = EngineSettings.model,
    host: Annotated[
        str, typer.Option(help="The address to listen on; beyond loopback only with an API key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 is any free one.")] = 8000,
    data_dir: Annotated[
        Path, typer.Option(help="Where checkpoints and what does not fit in memory go.")
    ] = EngineSettings.data_dir,
    api_key: Annotated[
        list[str] | None,
        typer.Option(help="A key that may enter; may be given several times.", envvar="MOTET_API_KEYS"),
    ] = None,
    dtype: Annotated[Dtype, typer.Option(help="auto (a short probe), float32 or bfloat16.")] = EngineSettings.dtype,
    threads: Annotated[int, typer.Option(help="Cores to use; 0 is all.")] = EngineSettings.threads,
    lanes: Annotated[
        Literal["shared", "split"], typer.Option(help="Sampler and trainer share all cores, or have half each.")
    ] = EngineSettings.lanes,
    apart: Annotated[
        list[str] | None,
        typer.Option(help="For benchmarks: what runs are not to share; may be given several times."),
    ] = None,
) -> None:
    """Serve a base model over the Tinker API; prints `ready ADDRESS` once it takes requests."""
    from motet.engine.process import run_engine
    from motet.service.http.server import serve as serve_until_signal
    from motet.service.http.settings import ServiceSettings

    logging.basicConfig(format="%(asctime)s service %(levelname)s %(message)s", level=logging.WARNING)
    service = ServiceSettings(data_dir, host, port, tuple(api_key or ()))
    if not service.api_keys:
        typer.echo("open on this machine only: without --api-key every key is a tenant of its own", err=True)
    try:
        engine = EngineSettings(model, data_dir, dtype, threads=threads, lanes=lanes, apart=tuple(apart or ()))
        asyncio.run(serve_until_signal(service, partial(run_engine, engine), typer.echo))
    except MotetError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:  # uvicorn raises it again once it has stopped in order
        raise typer.Exit(130) from None


if __name__ == "__main__":
    app()
