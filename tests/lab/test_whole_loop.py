"""`motet run` against a real server on the pocket model: one experiment learns, one fails, one is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from motet.lab.experiments.server import background_server
from motet.lab.experiments.sweep import run_file

COMMON = """
problems = 4
samples = 4
rank = 8
learning_rate = 1e-3
eval_problems = 16

[environment]
name = "word_problems"
operators = "+-*/"
examples = 0
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with background_server("pocket", tmp_path_factory.mktemp("server"), Console(quiet=True)) as url:
        yield url


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_experiments_side_by_side(address: str, tmp_path: Path) -> None:
    file, out = tmp_path / "two.toml", tmp_path / "out"
    file.write_text(
        f"steps = 3\n{COMMON}"
        '[[experiment]]\nname = "learns"\n[[experiment]]\nname = "same"\n'
        '[[experiment]]\nname = "fails"\nenvironment = { name = "gsm8k", path = "/nowhere" }\n'
    )
    assert run_file(file, address, out, Console(quiet=True)) == 1
    learns, same = lines(out / "learns" / "metrics.jsonl"), lines(out / "same" / "metrics.jsonl")
    steps = [line for line in learns if line["kind"] == "step"]
    assert [line["step"] for line in steps] == [1, 2, 3]
    assert [line["version"] for line in steps if line["loss"] is not None] == [1, 2, 3][: len(steps)]
    assert [line["when"] for line in learns if line["kind"] == "held_out"] == ["start", "end"]
    assert all(sum(line["outcomes"].values()) == 16 for line in steps)
    assert any(line["grad_norm"] for line in steps)
    rewards = [line["reward"] for line in steps]
    assert rewards == [line["reward"] for line in same if line["kind"] == "step"]  # isolation, seen from outside
    assert len(lines(out / "learns" / "rollouts.jsonl")) == 3 * 16
    assert "/nowhere" in (out / "fails" / "error.txt").read_text()
    assert (out / "rewards.png").stat().st_size > 1000


def test_sampler_and_trainer_agree_at_the_first_step(address: str, tmp_path: Path) -> None:
    file, out = tmp_path / "one.toml", tmp_path / "out"
    file.write_text(f"steps = 1\n{COMMON.replace('eval_problems = 16', 'eval_problems = 0')}")
    assert run_file(file, address, out, Console(quiet=True)) == 0
    (step,) = lines(out / "experiment" / "metrics.jsonl")
    assert step["mismatch_max"] is not None and step["mismatch_max"] < 1e-5


def test_ctrl_c_keeps_what_was_measured(address: str, tmp_path: Path) -> None:
    file, out = tmp_path / "long.toml", tmp_path / "out"
    file.write_text(f"steps = 500\n{COMMON.replace('eval_problems = 16', 'eval_problems = 0')}")
    command = [sys.executable, "-m", "motet.cli", "run", str(file), "--base-url", address, "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "120"})
    metrics = out / "experiment" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text().count("\n") >= 2):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "what was measured is kept" in told
    (summary,) = json.loads((out / "summary.json").read_text())["experiments"]
    assert summary["state"] == "stopped"
    assert len(summary["rewards"]) >= 2
