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

import httpx
import psutil
import pytest
import tinker
from rich.console import Console

from motet.errors import BadConfig
from motet.lab.experiments.config import parse
from motet.lab.experiments.reading import read_progress
from motet.lab.experiments.record import Record
from motet.lab.experiments.state import State, read_state, write_state
from motet.lab.experiments.sweep import resume, run_file
from motet.lab.experiments.sweep_folder import Asked, held, make_folder, read_folder
from tests.tiny import make_tiny_model

LETTERS = Path(__file__).parent / "algorithms" / "letters.py"
QUIET = Console(quiet=True)
FOLDERS = ("seed_0", "seed_1", "talks")
TIMES = ("seconds", "tokens_per_second")


def written(root: Path, count: int, steps: int, model: str = "pocket") -> Path:
    """An experiment file: so many experiments that differ in their seed, one of them on examples of a file."""
    (root / "talks.jsonl").write_text("\n".join(json.dumps({"prompt": f"{n}:", "completion": "ab"}) for n in range(9)))
    seeds = "\n".join(f'[[experiment]]\nname = "seed {seed}"\nseed = {seed}' for seed in range(count - 1))
    file = root / "sweep.toml"
    file.write_text(f"""
model = "{model}"
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
        told[file.parent.name] = [{key: one[key] for key in one if key not in TIMES} for one in steps]
        rollouts = file.with_name("rollouts.jsonl")
        told[f"{file.parent.name} rollouts"] = rollouts.read_text() if rollouts.exists() else ""
        told[f"{file.parent.name} held out"] = file.with_name("held_out.jsonl").read_text()
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
    return written(tmp_path_factory.mktemp("file"), count=3, steps=6)


@pytest.fixture(scope="module")
def calm(file: Path, address: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an undisturbed sweep."""
    out = tmp_path_factory.mktemp("calm") / "out"
    assert run_file(file, address, out, QUIET) == 0
    return out


def until(running: subprocess.Popen[bytes], out: Path, lines: int) -> None:
    while progress(out) < lines and running.poll() is None:
        time.sleep(0.01)


def test_its_server_was_killed_and_it_goes_on_as_if_undisturbed(file: Path, calm: Path, tmp_path: Path) -> None:
    """The client ends soon, and says why; its folder has all it takes."""
    out = tmp_path / "out"
    running = start(file, "--out", out)
    until(running, out, progress(calm) // 2)
    (server,) = psutil.Process(running.pid).children()
    server.kill()
    assert running.wait(timeout=30) == 2
    assert any(read_state(folder) for folder in out.iterdir() if folder.is_dir())
    assert resume(out, None, QUIET) == 0
    assert numbers(out) == numbers(calm)
    assert not (out / "server").exists()  # nobody needs its checkpoints any more
    kept = ("seed_0/metrics.jsonl", "summary.json")
    before = [(out / name).stat().st_mtime for name in kept]
    assert resume(out, None, QUIET) == 0  # nothing is left to do, and no server to start
    assert [(out / name).stat().st_mtime for name in kept] == before


def test_its_client_was_killed_and_nothing_is_left_behind(file: Path, calm: Path, address: str, tmp_path: Path) -> None:
    """On a server that stays it goes on as if undisturbed; of its former life no session and no checkpoint is there."""
    out = tmp_path / "out"
    running = start(file, "--out", out, "--base-url", address)
    until(running, out, progress(calm) // 2)
    running.kill()
    running.wait()
    killed = [(out / name / "session.txt").read_text().strip() for name in FOLDERS]
    assert resume(out, None, QUIET) == 0
    assert numbers(out) == numbers(calm)
    rest = tinker.RestClient(base_url=address, api_key="tml-local")
    for session in killed:
        for run in rest.get_session(session).result().training_run_ids:
            assert rest.list_checkpoints(run).result().checkpoints == []
    kept = {checkpoint.tinker_path for checkpoint in rest.list_user_checkpoints().result().checkpoints}
    states = [read_state(folder / name) for folder in (out, calm) for name in FOLDERS]
    assert kept >= {state.path for state in states if state is not None}
    with httpx.Client(headers={"X-API-Key": "tml-local"}) as client:
        beats = [{"session_id": one, "type": "session_heartbeat"} for one in killed]
        told = [client.post(f"{address}/api/v1/session_heartbeat", json=beat).status_code for beat in beats]
    assert told == [410] * len(FOLDERS)  # finished


def test_a_folder_is_run_by_one_client_at_a_time_and_only_a_sweeps_can_be_resumed(tmp_path: Path) -> None:
    sweep = parse({"rank": [2, 4]}, "x")
    folder = tmp_path / "out"
    make_folder(folder, Asked(sweep, "http://127.0.0.1:9"), None)
    assert read_folder(folder) == Asked(sweep, "http://127.0.0.1:9")
    with held(folder), pytest.raises(BadConfig, match="being run already"):
        resume(folder, None, QUIET)
    with pytest.raises(BadConfig, match="no server answers"):
        resume(folder, None, QUIET)
    with pytest.raises(BadConfig, match="no folder of `motet run`"):
        resume(tmp_path, None, QUIET)
    (folder / "rank=2" / "config.json").write_text('{"rank": "two"}')
    with pytest.raises(BadConfig, match="damaged"):
        resume(folder, None, QUIET)


@pytest.mark.long
def test_sixteen_experiments_killed_at_random(tmp_path: Path) -> None:
    file = written(tmp_path, 16, 20, str(make_tiny_model(tmp_path, "qwen3")))
    assert start(file, "--out", tmp_path / "calm").wait(timeout=600) == 0
    calm = numbers(tmp_path / "calm")
    through_kills(file, tmp_path / "rough", random.Random(1), kills=6, most=progress(tmp_path / "calm"))
    assert numbers(tmp_path / "rough") == calm


def test_what_was_recorded_after_the_last_checkpoint_is_cut_away(tmp_path: Path) -> None:
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
