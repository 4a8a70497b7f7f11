"""`motet run` that ends suddenly: its server ends with it, and Ctrl-C before anything has begun shows no trace."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

HOLDER = """
import sys, time
from pathlib import Path
from rich.console import Console
from motet.lab.experiments.server import background_server
with background_server("pocket", Path(sys.argv[1]), Console(quiet=True)):
    print("up", flush=True)
    time.sleep(600)
"""


def test_a_server_never_outlives_whoever_started_it(tmp_path: Path) -> None:
    """Not even after kill -9, which nobody can clean up after."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "up\n"
        below = psutil.Process(holder.pid).children(recursive=True)
        assert len(below) >= 2  # the server, and its engine
        holder.kill()
    _, alive = psutil.wait_procs(below, timeout=30)
    assert not alive


@pytest.mark.parametrize("module", ["typer", "pydantic", "transformers"])
def test_an_interrupt_while_it_is_imported_shows_no_trace(tmp_path: Path, module: str) -> None:
    """When the module's import is told, the next one is under way."""
    file, log, out = tmp_path / "one.toml", tmp_path / "log", tmp_path / "out"
    file.write_text('model = "pocket"\nsteps = 1\n')
    command = [sys.executable, "-X", "importtime", "-m", "motet", "run", str(file), "--out", str(out)]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        deadline = time.monotonic() + 60
        while not re.search(rf"\| +{module}$", log.read_text(), re.MULTILINE):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-500:]
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30) in (-signal.SIGINT, 130)
    assert "Traceback" not in log.read_text()
    assert not out.exists()
