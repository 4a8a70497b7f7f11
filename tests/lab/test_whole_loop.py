"""`motet run` against a real server on the pocket model: one experiment learns, one fails, one is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from motet.lab.experiments.sweep import resume, run_file

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


def test_asynchronous_steps_are_within_their_bound_and_tell_staleness_apart_from_mismatch(
    address: str, tmp_path: Path
) -> None:
    file, out = tmp_path / "late.toml", tmp_path / "out"
    mode = 'mode = "async"\nmax_staleness = 1\nstop_on = "any"\n'
    file.write_text(f"steps = 4\n{mode}{COMMON.replace('eval_problems = 16', 'eval_problems = 0')}")
    assert run_file(file, address, out, Console(quiet=True)) == 0
    steps = lines(out / "experiment" / "metrics.jsonl")
    assert all(sum(step["outcomes"].values()) == 16 for step in steps)
    assert [step["staleness"] for step in steps] == [0, 1, 1, 1]
    assert all(0 < step["algorithm"]["staleness_mean"] < 0.2 for step in steps[1:])
    assert all(step["mismatch_mean"] < 1e-5 for step in steps)  # against the newest version, not the one that wrote
    written = [line["version"] for line in lines(out / "experiment" / "rollouts.jsonl") if line["step"] == 4]
    assert set(written) <= {3, 4}


DULL = """
from motet.lab.envs.protocol import Cue, End
class Dull:
    async def start(self): return Cue([65], 2)
    async def step(self, written): return End(0.5, "dull")
class Tasks:
    def train(self, index): return Dull()
    held_out = train
def tasks(tokenizer, seed): return Tasks()
"""


def test_an_experiment_stops_on_what_it_was_told_and_goes_on_when_it_is_resumed(address: str, tmp_path: Path) -> None:
    file, out = tmp_path / "dull.toml", tmp_path / "out"
    (tmp_path / "dull.py").write_text(DULL)
    file.write_text(
        'steps = 3\nproblems = 1\nsamples = 2\nstop_on = "no-signal"\neval_problems = 3\neval_every = 2\n'
        f'environment = {{ name = "file", path = "{tmp_path / "dull.py"}" }}\n'
    )
    assert run_file(file, address, out, Console(quiet=True)) == 1
    (summary,) = json.loads((out / "summary.json").read_text())["experiments"]
    assert summary["state"] == "stopped" and "no group had different rewards" in summary["error"]
    folder = out / "experiment"
    assert [line["kind"] for line in lines(folder / "metrics.jsonl")] == ["held_out", "step"]
    assert resume(out, None, Console(quiet=True)) == 0
    told = lines(folder / "metrics.jsonl")
    assert [line.get("step", line.get("when")) for line in told] == ["start", 1, 2, "2", 3, "end"]
    assert [line["rewards"] for line in lines(folder / "held_out.jsonl")] == [[0.5] * 3] * 3


def test_one_that_failed_is_tried_again_and_one_that_is_done_is_left_alone(address: str, tmp_path: Path) -> None:
    file, out, env = tmp_path / "two.toml", tmp_path / "out", tmp_path / "env.py"
    (tmp_path / "dull.py").write_text(DULL)
    env.write_text(DULL.replace("End(0.5", "End(1 / 0"))
    file.write_text(
        "steps = 2\nproblems = 1\nsamples = 2\neval_problems = 0\n"
        f'[[experiment]]\nname = "fine"\nenvironment = {{ name = "file", path = "{tmp_path / "dull.py"}" }}\n'
        f'[[experiment]]\nname = "broken"\nenvironment = {{ name = "file", path = "{env}" }}\n'
    )
    assert run_file(file, address, out, Console(quiet=True)) == 1
    assert "division by zero" in (out / "broken" / "error.txt").read_text()
    fine = (out / "fine" / "metrics.jsonl").read_bytes()
    env.write_text(DULL)
    assert resume(out, None, Console(quiet=True)) == 0
    assert not (out / "broken" / "error.txt").exists()
    assert [line["step"] for line in lines(out / "broken" / "metrics.jsonl")] == [1, 2]
    assert (out / "fine" / "metrics.jsonl").read_bytes() == fine
