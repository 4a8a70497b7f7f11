"""The generator: right answers, the same every time, and splits that share nothing."""

from __future__ import annotations

import re

import pytest

from motet.errors import BadConfig
from motet.lab.envs.calculator import evaluate
from motet.lab.envs.problems import Problem
from motet.lab.envs.word_problems import NAMES, THINGS, WordProblems

MANY = 400


def _skeleton(problem: Problem) -> str:
    """A problem without its names and things, in whatever order they come."""
    return re.sub("|".join((*NAMES, *THINGS)), "_", problem.question)


@pytest.mark.parametrize("operations", [1, 2])
def test_answers_follow_from_the_steps(operations: int) -> None:
    for index in range(MANY):
        problem = WordProblems(operations).problem("train", index)
        values = [evaluate(step) for step in problem.steps]
        assert len(values) == operations
        assert values[-1] == problem.answer
        assert problem.answer.denominator == 1
        assert problem.answer >= 0
        numbers = re.findall(r"\d+", problem.question)
        used = re.findall(r"\d+", problem.steps[0]) + re.findall(r"\d+$", problem.steps[-1])[: operations - 1]
        assert sorted(used) == sorted(numbers)
        if operations == 2:
            assert problem.steps[1].startswith(str(values[0]))


@pytest.mark.parametrize("operations", [1, 2])
def test_splits_are_disjoint_for_any_seeds(operations: int) -> None:
    def skeletons(seed: int, split: str) -> set[str]:
        source = WordProblems(operations, seed=seed)
        return {_skeleton(source.problem(split, i)) for i in range(MANY)}  # type: ignore[arg-type]

    held_out, examples = skeletons(0, "held_out"), skeletons(0, "example")
    trained = skeletons(0, "train") | skeletons(7, "train")
    assert not held_out & trained
    assert not examples & trained
    assert not held_out & examples


def test_same_settings_give_the_same_problems() -> None:
    first, again, other = WordProblems(1, seed=3), WordProblems(1, seed=3), WordProblems(1, seed=4)
    assert [first.problem("train", i) for i in range(20)] == [again.problem("train", i) for i in range(20)]
    assert [first.problem("train", i) for i in range(20)] != [other.problem("train", i) for i in range(20)]
    assert first.problem("held_out", 5) == other.problem("held_out", 5)


def test_operators_are_balanced_and_many_phrasings_occur() -> None:
    problems = [WordProblems(1, "+-").problem("train", i) for i in range(MANY)]
    assert sum("+" in one.steps[0] for one in problems) == MANY // 2
    assert len({re.sub(r"\d+", "", _skeleton(one)) for one in problems}) > 60


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(BadConfig, match="2-operation"):
        WordProblems(2, "/")
