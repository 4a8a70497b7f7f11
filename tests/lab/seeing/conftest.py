"""Sweeps that really ran, on one server: two rates and two seeds of episodes, and a file of examples."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from rich.console import Console

from motet.lab.experiments.sweep import run_file

QUIET = Console(quiet=True)
TALKS = Path(__file__).parents[3] / "examples" / "data" / "talks.jsonl"
RATES = """
model = "pocket"
steps = 3
problems = 2
samples = 4
rank = 4
learning_rate = [1e-3, 1e-4]
seed = [0, 1]
eval_problems = 12
eval_every = 2
environment = { name = "word_problems", operators = "+-", examples = 0 }
"""
SFT = f"""
model = "pocket"
steps = 2
problems = 8
rank = 4
learning_rate = 1e-3
algorithm = {{ name = "sft" }}
data = {{ path = "{TALKS}" }}
"""


@pytest.fixture(scope="session")
def folder(address: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sweep")
    file, out = root / "rates.toml", root / "rates"
    file.write_text(RATES)
    track = ("tensorboard",) if find_spec("tensorboardX") else ()
    assert run_file(file, address, out, QUIET, track=track) == 0
    return out


@pytest.fixture(scope="session")
def talks(address: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sweep")
    file, out = root / "talks.toml", root / "talks"
    file.write_text(SFT)
    assert run_file(file, address, out, QUIET) == 0
    return out
