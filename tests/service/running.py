"""A real `motet serve` for tests, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from motet.lab.experiments.server import READY


@dataclass(frozen=True)
class Server:
    """Where it listens, and its process."""

    address: str
    pid: int


@contextmanager
def serving(model: Path, folder: Path, flags: Sequence[str] = ()) -> Iterator[Server]:
    """A server on a free port; its log is folder/server.log."""
    log = folder / "server.log"
    command = [sys.executable, "-m", "motet.cli", "serve", "--model", str(model), "--port", "0"]
    command += ["--data-dir", str(folder / "data"), "--dtype", "float32", *flags]
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith(READY), log.read_text()
            yield Server(line.removeprefix(READY).strip(), process.pid)
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()
            rest, _ = process.communicate(timeout=30)
    assert rest == "", "serve prints one line on stdout"


def wait_until(happens: object, seconds: float = 20.0) -> None:
    """Call `happens` until it is true."""
    assert callable(happens)
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline, f"it did not happen within {seconds} s"
        time.sleep(0.05)
