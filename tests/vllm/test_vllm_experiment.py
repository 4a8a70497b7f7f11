"""One experiment file on two servers, which differ in what draws: the curves agree within the spread of their seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from rich.console import Console

from motet.lab.experiments.server import background_server
from motet.lab.experiments.sweep import run_file

EXPERIMENT = """
steps = 12
problems = 8
samples = 8
rank = 8
learning_rate = 1e-3
eval_problems = 0
seed = [0, 1, 2, 3]

[environment]
name = "word_problems"
operations = 1
operators = "+-*/"
examples = 0
"""
QUIET = Console(quiet=True)


class Curves(NamedTuple):
    rewards: np.ndarray  # (seeds, steps)
    mismatch: float  # the largest of all steps


def curves(sampler: str, folder: Path) -> Curves:
    folder.mkdir()
    settings, file = folder / "serve.toml", folder / "experiment.toml"
    settings.write_text(f'[engine]\ndtype = "float32"\nmax_rank = 8\nsampler = "{sampler}"\n')
    file.write_text(EXPERIMENT)
    with background_server("pocket", folder, QUIET, ["--config", str(settings)]) as address:
        assert run_file(file, address, folder / "out", QUIET) == 0
    told = [path.read_text().splitlines() for path in sorted((folder / "out").glob("*/metrics.jsonl"))]
    steps = [[line for line in map(json.loads, lines) if line["kind"] == "step"] for lines in told]
    mismatch = max(line["mismatch_max"] or 0.0 for lines in steps for line in lines)
    return Curves(np.array([[line["reward"] for line in lines] for lines in steps]), mismatch)


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_the_same_file_learns_alike_whatever_draws(tmp_path: Path) -> None:
    pytest.importorskip("vllm", reason="vLLM is not installed: make test-vllm")
    own, theirs = curves("local", tmp_path / "own"), curves("vllm", tmp_path / "vllm")
    print(f"\nown {own.rewards.mean(0).round(3)}\nvllm {theirs.rewards.mean(0).round(3)}")
    print(f"mismatch {own.mismatch:.2g}, {theirs.mismatch:.2g}")
    assert own.rewards.shape == theirs.rewards.shape == (4, 12)
    ends = [each.rewards[:, -4:].mean(1) for each in (own, theirs)]
    spread = np.sqrt(sum(end.var(ddof=1) / len(end) for end in ends))
    assert abs(ends[0].mean() - ends[1].mean()) < 3 * spread
    for each in (own, theirs):
        assert each.rewards[:, -4:].mean() > each.rewards[:, :4].mean()
    assert theirs.mismatch < 1e-3
