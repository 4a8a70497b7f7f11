"""A real `motet serve` for tests, in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from motet.lab.experiments.server import READY


@dataclass(frozen=True)
class Server:
    """Where it listens, and its process."""

    address: str
    pid: int


@contextmanager
def serving(model: Path, folder: Path, flags: Sequence[str] = (), stops_itself: bool = False) -> Iterator[Server]:
    """A server on a free port; its log is folder/server.log. `stops_itself`: it may have ended before."""
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
            assert stops_itself or process.poll() is None, log.read_text()
        finally:
            process.terminate()
            rest, _ = process.communicate(timeout=30)
    assert rest == "", "serve prints one line on stdout"


class Restartable:
    """A server that is killed and started again: one address, one data folder."""

    def __init__(self, model: Path, folder: Path, flags: Sequence[str] = ()) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.log = folder / "server.log"
        self._command = [sys.executable, "-m", "motet.cli", "serve", "--model", str(model), "--port", str(self.port)]
        self._command += ["--data-dir", str(folder / "data"), *flags]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        with self.log.open("ab") as errors:
            env = {**os.environ, "OMP_NUM_THREADS": "1"}
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith(READY), self.log.read_text()

    def kill_engine(self) -> None:
        """The server starts another by itself."""
        assert self._process is not None
        for child in psutil.Process(self._process.pid).children():
            with suppress(psutil.NoSuchProcess):  # it was killed a moment ago, and is a zombie yet
                if "spawn_main" in " ".join(child.cmdline()):
                    child.kill()

    def kill_server(self) -> None:
        """The engine notices, and goes."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def kill_both(self) -> None:
        assert self._process is not None
        children = psutil.Process(self._process.pid).children(recursive=True)
        self.kill_server()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.communicate(timeout=30)

    def resident_bytes(self) -> int:
        """Memory of the HTTP process; 0 while there is none."""
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).memory_info().rss if self._process is not None else 0
        return 0


@contextmanager
def engine_asleep(server: Server) -> Iterator[None]:
    """The engine's process stands still in here, and goes on afterwards."""
    children = psutil.Process(server.pid).children()
    engine = next(child for child in children if "spawn_main" in " ".join(child.cmdline()))
    engine.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        engine.send_signal(signal.SIGCONT)


def wait_until(happens: Callable[[], object], seconds: float = 20.0) -> None:
    """Call `happens` until it is true."""
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline, f"it did not happen within {seconds} s"
        time.sleep(0.05)
