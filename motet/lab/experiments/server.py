"""A server for one sweep: started in the background, watched, and stopped at the end."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console

from motet.errors import BadConfig, EngineFault

READY = "ready "
STOP_SECONDS = 20.0
LOOK_SECONDS = 1.0
DEFAULT_PORTS = {"http": 80, "https": 443}
DATA = "server"  # in the sweep's folder


@contextmanager
def background_server(model: str | None, folder: Path, console: Console, flags: Sequence[str] = ()) -> Iterator[str]:
    """Start `motet serve` on a free port; gives its address once it is ready. Its output goes to server.log.

    What it keeps on disk stays in the folder, for a sweep that goes on, until `forget_server`.
    Raises EngineFault with the end of its log when it stops before it was ready.
    """
    log, data = folder / "server.log", folder / DATA
    command = [sys.executable, "-m", "motet.cli", "serve", "--port", "0"]
    command += ["--data-dir", str(data), "--leash"]
    command += ["--model", model] if model else []
    command += flags
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.PIPE,  # its end, however we come to ours, is the server's
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # Ctrl-C is for the client, which then stops the server
        )
    try:
        yield _wait_until_ready(process, log, console)
    finally:
        _stop(process)


async def until_gone(address: str) -> None:
    """Until nobody listens any more at an address of this machine."""
    while not await is_gone(address):
        await asyncio.sleep(LOOK_SECONDS)


async def is_gone(address: str) -> bool:
    """Does nobody listen there? A server that is only busy still does, and so may one that cannot be reached."""
    place = urlsplit(address)
    try:
        _, writer = await asyncio.open_connection(place.hostname, place.port or DEFAULT_PORTS[place.scheme])
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    writer.close()
    return False


def forget_server(folder: Path) -> None:
    """Remove what the server of a sweep kept on disk: nobody asks it for a checkpoint any more."""
    shutil.rmtree(folder / DATA, ignore_errors=True)


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path, console: Console) -> str:
    began = time.monotonic()
    with console.status("starting the server") as status:
        while True:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            ready = next((line for line in lines if line.startswith(READY)), None)
            seconds = time.monotonic() - began
            if ready is not None:
                address = ready.removeprefix(READY).strip()
                console.print(f"server ready at {address} after {seconds:.1f} s")
                return address
            if process.poll() is not None:
                told = "\n".join(lines[-15:]) or "it said nothing"
                raise EngineFault(f"the server stopped before it was ready; the end of {log}:\n{told}")
            status.update(f"starting the server, {seconds:.0f} s: {lines[-1][:80] if lines else ''}")
            time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def check_server(base_url: str) -> None:
    """Raises BadConfig when nobody answers there: the SDK itself would go on trying for minutes."""
    address = f"{base_url.rstrip('/')}/api/v1/healthz"
    try:
        with urllib.request.urlopen(address, timeout=10):
            return
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise BadConfig(
            f"no server answers at {base_url} ({error}); start one with `motet serve`, or leave --base-url out"
        ) from None
