"""The gate's figures: by hand, by enumeration, and its error rate over many candidates that change nothing."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from motet.errors import BadConfig, BadRequest
from motet.lab.loop.gate.decision import SetResult, judge
from motet.lab.loop.gate.paired import compare
from motet.lab.loop.gate.sets import SAFETY, Question, likeness, read_set

LEVEL = 0.05


def test_a_difference_by_hand() -> None:
    one = compare([0.0, 0.5, 1.0], [1.0, 0.5, 1.0], LEVEL, seed=0)
    assert (one.before, one.after, one.questions) == (0.5, pytest.approx(2.5 / 3), 3)
    assert one.differences == (1.0, 0.0, 0.0) and one.low == 0.0 and one.high == 1.0
    assert one.chance_above(0.0, 0) == 0.5  # of eight patterns of signs, four have a sum of 1 or more


def test_chances_are_those_of_all_patterns_of_signs() -> None:
    differences = [0.3, -0.1, 0.4, 0.2, 0.0, 0.5]
    one = compare([0.0] * 6, differences, LEVEL, seed=1)
    for bound in (0.0, -0.1, 0.2):
        moved = [value - bound for value in differences]
        sums = [sum(s * v for s, v in zip(signs, moved, strict=True)) for signs in itertools.product((1, -1), repeat=6)]
        assert one.chance_above(bound, 0) == sum(total >= sum(moved) - 1e-9 for total in sums) / 64


def test_many_questions_are_as_few_but_for_chance() -> None:
    dice = np.random.default_rng(0)
    values = dice.normal(0.2, 0.5, size=40)
    one = compare([0.0] * 40, values.tolist(), LEVEL, seed=1)
    z = values.sum() / np.sqrt((values**2).sum())
    expected = 0.5 * (1 - float(np.vectorize(__import__("math").erf)(z / np.sqrt(2))))
    assert one.chance_above(0.0, 0) == pytest.approx(expected, abs=0.02)
    assert one.low < 0.2 < one.high


def test_what_cannot_be_compared_is_refused() -> None:
    for before, after in (([], []), ([1.0], [1.0, 2.0])):
        with pytest.raises(BadRequest, match="ask both the same questions"):
            compare(before, after, LEVEL, 0)


def held_out(after: list[float], before: list[float] | None = None) -> SetResult:
    return SetResult("held-out", "target", before or [0.0] * len(after), after, margin=0.1)


def guard(after: list[float], sure: bool = False) -> SetResult:
    return SetResult("guard", "guard", [1.0] * len(after), after, 0.1, sure)


def test_who_passes() -> None:
    assert judge([held_out([1.0] * 6)], LEVEL, 0).promote
    assert "0.00 to 1.00 on 6 of held-out (+1.00" in judge([held_out([1.0] * 6)], LEVEL, 0).reason
    assert not judge([held_out([1.0] * 4)], LEVEL, 0).promote  # four cannot be sure
    assert not judge([held_out([0.0] * 20)], LEVEL, 0).promote  # nothing has changed
    assert not judge([], LEVEL, 0).promote and not judge([guard([1.0] * 9)], LEVEL, 0).promote


def test_who_is_worse_elsewhere_does_not() -> None:
    better = held_out([1.0] * 8)
    assert judge([better, guard([1.0] * 8)], LEVEL, 0).promote
    refused = judge([better, guard([1.0, 0.0] * 6)], LEVEL, 0)
    assert not refused.promote and "worse elsewhere: 1.00 to 0.50 on 12 of guard" in refused.reason
    one_of_twelve = [0.0, *[1.0] * 11]
    assert judge([better, guard(one_of_twelve)], LEVEL, 0).promote
    assert not judge([better, guard(one_of_twelve, sure=True)], LEVEL, 0).promote  # twelve are too few to be sure
    assert judge([better, guard([1.0] * 12, sure=True)], LEVEL, 0).promote
    other = SetResult("verdicts", "target", [0.5] * 6, [0.2] * 6, margin=0.1)
    assert not judge([better, other], LEVEL, 0).promote


@pytest.mark.parametrize("count", [6, 12, 40])
def test_what_changes_nothing_passes_no_more_often_than_stated(count: int) -> None:
    """1,000 candidates whose scores differ by noise alone, heavy-tailed and with ties, on two targets."""
    dice, passed = np.random.default_rng(count), 0
    for trial in range(1000):
        sets = [
            SetResult(name, "target", [0.0] * count, np.round(dice.standard_t(3, count), 1).tolist(), margin=9.0)
            for name in ("a", "b")
        ]
        passed += judge(sets, LEVEL, trial).promote
    assert passed <= 1000 * LEVEL + 2.6 * np.sqrt(1000 * LEVEL * (1 - LEVEL))


def test_answers_are_scored() -> None:
    assert likeness("Ticket: parcel.", "ticket:  PARCEL .") == 1.0
    assert likeness("a b c d", "a x c y") == 0.5 and likeness("", "a") == 0.0
    assert Question([], [], must="ticket").score("Your Ticket") == 1.0
    assert Question([], [], must="ticket").score("none") == 0.0
    assert Question([], [], answer="a b", never="a").score("a b") == 0.0
    assert Question([], [], answer="a b").score("a b") == 1.0


def test_sets_are_read_and_mistakes_told(tmp_path: Path) -> None:
    assert len(read_set(SAFETY)) == 12
    file = tmp_path / "set.jsonl"
    file.write_text(json.dumps({"prompt": "Hi?", "answer": "Hello."}) + "\n")
    assert read_set(file)[0].messages == [{"role": "user", "content": "Hi?"}]
    for line, told in [
        ("{", "set.jsonl:1: no JSON"),
        ('{"prompt": "a"}', "a line is"),
        ('{"answer": "a"}', "asks nothing"),
        ('{"prompt": "a", "never": "("}', "never is no regular expression"),
    ]:
        file.write_text(line)
        with pytest.raises(BadConfig, match=told):
            read_set(file)
