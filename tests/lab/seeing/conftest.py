"""A sweep that really ran: two rates, two seeds, three steps of the pocket model."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from rich.console import Console

from motet.lab.experiments.sweep import run_file

FILE = """
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


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sweep")
    file, out = root / "rates.toml", root / "rates"
    file.write_text(FILE)
    track = ("tensorboard",) if find_spec("tensorboardX") else ()
    assert run_file(file, None, out, Console(quiet=True), track=track) == 0
    return out
