"""The benchmarks of the parts, on a model so small that they end in seconds: what they print is what was asked for."""

from __future__ import annotations

import json
import os
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
from typer.testing import CliRunner

from motet.bench.concurrency import ways_for
from motet.bench.sampler import bench_sampler
from motet.bench.step import bench_step
from motet.bench.trainer import Step, bench_memory, bench_trainer, peak_bytes
from motet.cli import app as cli
from motet.engine.settings import MIXINGS
from tests.tiny import make_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_tiny_model(tmp_path_factory.mktemp("model"), "qwen3"))


def rows(file: Path) -> list[dict[str, float]]:
    told: list[dict[str, float]] = json.loads(file.read_text())["rows"]
    return told


def test_sampler(model: str, tmp_path: Path) -> None:
    bench_sampler(model, "float32", context=40, rank=4, sequences=[1, 8], json_file=tmp_path / "s.json")
    told = rows(tmp_path / "s.json")
    assert [(row["sequences"], row["adapters"]) for row in told] == [(n, a) for n in (1, 8) for a in (0, 1, 8)]
    for row in told:
        assert row["tokens a second"] == pytest.approx(1e3 * row["sequences"] / row["ms a step"])


def test_trainer(model: str, tmp_path: Path) -> None:
    bench_trainer(model, "float32", tokens=64, length=32, rank=4, json_file=tmp_path / "t.json")
    told = rows(tmp_path / "t.json")
    assert [row["work"] for row in told] == ["one run of 512", "8 mixed of 64", "8 one after another"]
    assert all(row["tokens"] == 512 and row["seconds"] > 0 for row in told)


@pytest.mark.long
def test_memory(model: str, tmp_path: Path) -> None:
    bench_memory(model, "float32", tokens=64, length=32, rank=4, json_file=tmp_path / "m.json")
    assert all(0.1 < row["GiB resident"] < 4 for row in rows(tmp_path / "m.json"))


def die(step: Step) -> None:
    os._exit(9)


@pytest.mark.long
def test_a_measured_process_that_is_killed_is_told(model: str) -> None:
    with pytest.raises(BrokenProcessPool):
        peak_bytes(die, Step(model, "float32", 64, 32, 4))


def test_every_kind_of_sharing_is_given_up_once_and_all_at_last() -> None:
    ways = ways_for([1, 4], cold=True, split=False, ablation=True)
    assert [way.name for way in ways[:3]] == ["serial, warm", "serial, cold", "N = 4"]
    assert [way.flags for way in ways[3:-1]] == [("--apart", mixing) for mixing in MIXINGS]
    assert [word for word in ways[-1].flags if word != "--apart"] == list(MIXINGS)


def test_step(model: str, tmp_path: Path) -> None:
    bench_step(model, "float32", rank=4, tries=1, plain=True, json_file=tmp_path / "r.json")
    told = rows(tmp_path / "r.json")
    assert [row["by"] for row in told] == ["motet", "transformers and peft"]  # peft is among the test's dependencies
    for row in told:
        assert row["whole, s"] == pytest.approx(row["sampling, s"] + row["training, s"] + row["step and publish, s"])


def test_an_unknown_model_is_told_in_a_line() -> None:
    ended = CliRunner().invoke(cli, ["bench", "sampler", "--model", "./nowhere"])
    assert (ended.exit_code, ended.stderr) == (2, "error: there is no folder ./nowhere\n")
