"""Paired comparison against values by hand and against what is true in simulations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from motet.lab.experiments.progress import Accuracy
from motet.lab.experiments.seeing.compare import compare, gain, paired
from motet.lab.experiments.seeing.differences import differing, families, flat, shared
from motet.lab.experiments.seeing.folder import Measurement, SeenExperiment, read_sweep


def seen(name: str, rewards: list[float | None], **config: object) -> SeenExperiment:
    told = {"name": name, "seed": 0, "environment": {"name": "word_problems"}, "algorithm": {"name": "grpo"}, **config}
    return SeenExperiment(Path(name), told, [], [Measurement(3, Accuracy.of(rewards))], [], "")


def test_by_hand() -> None:
    found = paired([0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 1.0, 0.0])
    assert (found.difference, found.better, found.worse, found.problems) == (0.0, 1, 1, 4)
    assert found.error == pytest.approx((2 / 3) ** 0.5 / 2)  # d = 1, 0, 0, -1
    assert found.low < 0 < found.high and not found.clear


def test_the_interval_holds_what_is_true_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for seed in range(200):
        hard = rng.random(120) * 0.8  # what makes a problem hard for both falls out
        first = (rng.random(120) < hard).astype(float)
        second = (rng.random(120) < hard + 0.1).astype(float)
        found = paired(first.tolist(), second.tolist(), seed)
        covered += found.low <= 0.1 <= found.high
    assert 180 <= covered <= 199


def test_pairing_is_sharper_than_two_separate_errors() -> None:
    rng = np.random.default_rng(1)
    first = (rng.random(300) < 0.5).astype(float)
    second = first.copy()
    second[:20] = 1.0
    found = paired(first.tolist(), second.tolist())
    apart = np.hypot(Accuracy.of(first.tolist()).error, Accuracy.of(second.tolist()).error)
    assert found.clear and found.error < 0.5 * apart


def test_only_the_same_problems_are_compared() -> None:
    one, other = seen("a", [0.0, 1.0, 0.0]), seen("b", [1.0, 1.0, 0.0], seed=1)
    found = compare(one, other)
    assert found is not None and found.difference == pytest.approx(1 / 3)
    assert compare(one, seen("c", [1.0, 1.0, 0.0], environment={"name": "word_problems", "operators": "*"})) is None
    assert compare(one, seen("d", [1.0, 1.0])) is None
    assert compare(one, replace(other, measured=[])) is None
    data = {"path": "same.jsonl"}
    sft, kto = ({"algorithm": {"name": name}, "data": data} for name in ("sft", "kto"))
    assert compare(seen("e", [1.0, 1.0], **sft), seen("f", [0.0, 1.0], **kto)) is None  # measured in another way
    assert gain(one) is None


def test_a_problem_that_failed_is_left_out_and_shifts_no_other() -> None:
    found = compare(seen("a", [None, 1.0, 0.0, 1.0]), seen("b", [0.0, 1.0, 1.0, None]))
    assert found is not None and (found.problems, found.better, found.worse) == (2, 1, 0)
    assert Accuracy.of([None, 1.0, 0.0]) == Accuracy(0.5, pytest.approx(0.28868, abs=1e-5), 2, (None, 1.0, 0.0))
    assert compare(seen("a", [None, 1.0]), seen("b", [0.0, 1.0])) is None


def test_differences_and_families() -> None:
    several = [
        seen("a", [0.0], seed=seed, rank=rank, algorithm={"name": "grpo", "clip": clip})
        for rank, clip in ((4, 0.2), (8, 0.3))
        for seed in (0, 1)
    ]
    assert differing(several) == ["seed", "algorithm.clip", "rank"]
    assert shared(several) == {"environment.name": "word_problems", "algorithm.name": "grpo"}
    assert {name: len(members) for name, members in families(several).items()} == {
        "clip 0.2, rank 4": 2,
        "clip 0.3, rank 8": 2,
    }
    assert list(families(several[:1])) == ["a"] and list(families(several[:2])) == ["all seeds"]
    assert flat({"name": "x", "a": {"b": 1}}) == {"a.b": 1}
    assert flat({"environment": {"name": "w"}, "data": {"path": "p"}}) == {"data.path": "p"}  # nobody enters it


def test_a_real_sweep_is_read_whole(folder: Path) -> None:
    sweep = read_sweep(folder)
    assert sweep.model == "pocket"
    assert [one.config["learning_rate"] for one in sweep.experiments] == [1e-3, 1e-3, 1e-4, 1e-4]  # as asked for
    for one in sweep.experiments:
        assert [step.step for step in one.steps] == [1, 2, 3] and one.state == "done"
        assert [(m.step, len(m.accuracy.each)) for m in one.measured] == [(0, 12), (2, 12), (3, 12)]
        found = gain(one)
        assert found is not None
        assert found.difference == pytest.approx(one.measured[-1].accuracy.mean - one.measured[0].accuracy.mean)
        assert len(list(one.rollouts())) == 3 * 2 * 4
    assert compare(sweep.experiments[0], sweep.experiments[2]) is not None
