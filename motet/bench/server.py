"""A real `motet serve` that benchmarks start, kill and start again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from copy import copy
from pathlib import Path

import httpx

from motet.errors import EngineFault
from motet.lab.experiments.server import READY

KEY = {"X-API-Key": "tml-bench"}


class KillableServer:
    """One address and one data folder, over several processes."""

    def __init__(self, model: str, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        self.data = folder / "data"
        self._log = folder / "server.log"
        self._command = [sys.executable, "-m", "motet.cli", "serve", "--model", model, "--port", str(port)]
        self._command += ["--data-dir", str(self.data)]
        self._process: subprocess.Popen[str] | None = None
        self._group = 0

    def start(self) -> float:
        """Seconds until it is ready. EngineFault: it stopped before."""
        began = time.perf_counter()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        self._group = self._process.pid
        assert self._process.stdout is not None
        if not self._process.stdout.readline().startswith(READY):
            raise EngineFault(f"the server stopped before it was ready:\n{self._log.read_text()[-2000:]}")
        return time.perf_counter() - began

    def kill(self) -> None:
        """kill -9 of the server and of its engine."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.communicate()

    def alike(self) -> KillableServer:
        """The same server for another process, which can only look at it."""
        twin = copy(self)
        twin._process = None
        return twin

    def memory_bytes(self) -> int:
        """Resident, of the server and of its engine."""
        listed = subprocess.run(["ps", "-o", "rss=", "-g", str(self._group)], capture_output=True, text=True)
        return sum(int(line) for line in listed.stdout.split()) * 1024

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.address, headers=KEY, timeout=120)
