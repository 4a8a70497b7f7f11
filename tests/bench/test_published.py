"""Published figures beside ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from motet.bench.published import PUBLISHED, find, in_small, theirs
from motet.cli import app
from motet.errors import BadConfig
from motet.lab.experiments.recipe import read_recipe

EXAMPLES = Path(__file__).parents[2] / "examples"
GSM8K = EXAMPLES / "published" / "gsm8k.toml"


def test_the_ratios_are_those_that_were_published() -> None:
    """2.81 times sooner, steps 2.62 times slower, at eight; the best mean experiment, 1.88 times, at four."""
    last, four = PUBLISHED["gsm8k"].at(8), PUBLISHED["gsm8k"].at(4)
    assert last is not None and four is not None and four.mean_experiment is not None
    assert (round(last.gain, 2), round(last.slowdown, 2)) == (2.81, 2.62)
    assert round(8575 / four.mean_experiment, 2) == 1.88
    assert PUBLISHED["gsm8k"].at(3) is None
    level = PUBLISHED["tau_bench_retail"].at(2)
    assert level is not None and theirs(level) == [2, "published", "–", 1.28, "–", "–", 1.57, "–"]


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_each_has_its_recipe(name: str) -> None:
    sweep = read_recipe(EXAMPLES / "published" / f"{name}.toml")
    published = find(sweep)
    assert published is PUBLISHED[name] and len(sweep.experiments) == published.experiments
    assert published.model in (sweep.model or "").removesuffix("-BF16").replace("NVIDIA-", "")
    assert all(one.steps == 10 and one.algorithm.name == "grpo" for one in sweep.experiments)
    small = in_small(sweep.experiments[0])
    assert (small.steps, small.environment.turns, small.rank) == (1, 3, sweep.experiments[0].rank)


def test_what_nobody_published_is_told() -> None:
    with pytest.raises(BadConfig, match="figures for gsm8k and tau_bench_retail"):
        find(read_recipe(EXAMPLES / "demo.toml"))


@pytest.mark.long
def test_it_runs_on_the_pocket_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES.parent)
    if not Path("../shared/data/gsm8k").is_dir():
        pytest.skip("GSM8K's files are not here")
    told = tmp_path / "told.json"
    arguments = ["bench", "published", str(GSM8K), "--model", "pocket", "--small", "--levels", "2", "--json", str(told)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    rows = json.loads(told.read_text())["rows"]
    assert [(row["N"], row["whose"]) for row in rows] == [(n, who) for n in (1, 2) for who in ("published", "ours")]
    assert rows[3]["rewards as serial"] == "8 of 8" and rows[3]["last finishes, s"] > 0
