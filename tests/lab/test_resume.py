"""A sweep that was killed at any moment, client or server, and resumed ends with the numbers of one that was not."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from motet.lab.experiments.config import parse
from motet.lab.experiments.reading import read_progress
from motet.lab.experiments.state import State, write_state
from tests.tiny import make_tiny_model

LETTERS = Path(__file__).parent / "algorithms" / "letters.py"
MEASURED = ("step", "reward", "outcomes", "loss", "grad_norm", "tokens", "trained_tokens", "version", "learning_rate")


def written(root: Path, count: int, steps: int) -> Path:
    """An experiment file: so many experiments that differ in their seed, one of them on examples of a file."""
    (root / "talks.jsonl").write_text("\n".join(json.dumps({"prompt": f"{n}:", "completion": "ab"}) for n in range(9)))
    seeds = "\n".join(f'[[experiment]]\nname = "seed {seed}"\nseed = {seed}' for seed in range(count - 1))
    file = root / "sweep.toml"
    file.write_text(f"""
model = "{make_tiny_model(root, "qwen3")}"
steps = {steps}
problems = 2
samples = 4
rank = 4
learning_rate = 1e-2
schedule = "linear"
eval_problems = 4
eval_every = 4
checkpoint_every = 2
environment = {{ name = "file", path = "{LETTERS}" }}
{seeds}
[[experiment]]
name = "talks"
algorithm = {{ name = "sft" }}
data = {{ path = "{root / "talks.jsonl"}", held_out = 0.3 }}
""")
    return file


def start(*arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "motet.cli", "run", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ.copy())


def numbers(folder: Path) -> dict[str, Any]:
    """All that must be equal: every step, every measurement, every rollout."""
    told: dict[str, Any] = {}
    for file in sorted(folder.glob("*/metrics.jsonl")):
        steps = [json.loads(line) for line in file.read_text().splitlines()]
        told[file.parent.name] = [
            {key: one[key] for key in MEASURED} if one["kind"] == "step" else (one["when"], one["mean"])
            for one in steps
        ]
        rollouts = file.with_name("rollouts.jsonl")
        told[f"{file.parent.name} rollouts"] = rollouts.read_text() if rollouts.exists() else ""
    return told


def progress(folder: Path) -> int:
    return sum(file.read_text().count("\n") for file in folder.glob("*/metrics.jsonl"))


def through_kills(file: Path, out: Path, draw: random.Random, kills: int, most: int) -> None:
    """Run to the end; on the way kill the client or its server, so many times, at random moments."""
    running = start(file, "--out", out)
    for kill in range(kills):
        moment = progress(out) + draw.randrange(1, max(2, most // kills))
        while running.poll() is None and progress(out) < moment:
            time.sleep(0.01)
        if running.poll() is None:
            _kill(running, client=kill % 2 == 1)
            running = start("--resume", out)
    assert running.wait(timeout=300) == 0, (out / "server.log").read_text()[-2000:]


def _kill(running: subprocess.Popen[bytes], client: bool) -> None:
    """The client alone, whose server then stops by itself; or both at once, as a machine would."""
    children = psutil.Process(running.pid).children()
    if not client:
        for server in children:
            server.kill()
    running.send_signal(signal.SIGKILL)
    running.wait(timeout=60)
    psutil.wait_procs(children, timeout=30)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("resume"), count=3, steps=6)


def test_killed_and_resumed_it_ends_as_undisturbed(file: Path, tmp_path: Path) -> None:
    assert start(file, "--out", tmp_path / "calm").wait(timeout=120) == 0
    calm = numbers(tmp_path / "calm")
    through_kills(file, tmp_path / "rough", random.Random(4), kills=1, most=progress(tmp_path / "calm"))
    assert numbers(tmp_path / "rough") == calm
    assert not (tmp_path / "rough" / "server").exists()  # nobody needs its checkpoints any more
    before = (tmp_path / "rough" / "seed_0" / "metrics.jsonl").stat().st_mtime
    assert start("--resume", tmp_path / "rough").wait(timeout=60) == 0  # nothing is left to do
    assert (tmp_path / "rough" / "seed_0" / "metrics.jsonl").stat().st_mtime == before


@pytest.mark.long
def test_sixteen_experiments_killed_at_random(tmp_path: Path) -> None:
    file = written(tmp_path, count=16, steps=20)
    assert start(file, "--out", tmp_path / "calm").wait(timeout=600) == 0
    calm = numbers(tmp_path / "calm")
    through_kills(file, tmp_path / "rough", random.Random(1), kills=6, most=progress(tmp_path / "calm"))
    assert numbers(tmp_path / "rough") == calm


def test_what_was_recorded_after_the_last_checkpoint_is_cut_away(tmp_path: Path) -> None:
    from motet.lab.experiments.record import Record

    (experiment,) = parse({}, "x").experiments
    record = Record(tmp_path, experiment)
    (tmp_path / "metrics.jsonl").write_text("kept\n")
    record.keep(State(1, 1, "tinker://x", {"next": 8}))
    (tmp_path / "metrics.jsonl").write_text("kept\nmade again\n")
    (tmp_path / "rollouts.jsonl").write_text("made again\n")
    again = Record(tmp_path, experiment)
    assert again.state == State(1, 1, "tinker://x", {"next": 8}, {"metrics.jsonl": 5})
    assert (tmp_path / "metrics.jsonl").read_text() == "kept\n"
    assert (tmp_path / "rollouts.jsonl").read_text() == ""


def test_a_torn_line_and_a_folder_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(
        '{"kind": "held_out", "when": "start", "mean": 1, "error": 0, "problems": 1}\n{"ki'
    )
    row = read_progress(tmp_path, "x", 3)
    assert row.start is not None and row.start.mean == 1 and row.history == []
    assert read_progress(tmp_path / "none", "x", 3).state == "waiting"
    write_state(tmp_path, State(3, 3, "", {}, done=True))
    assert read_progress(tmp_path, "x", 3).state == "done"
