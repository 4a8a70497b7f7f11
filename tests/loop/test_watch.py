"""The canary's bound under repeated looks, drift, and feedback that contradicts the rest."""

from __future__ import annotations

import math

import numpy as np
import pytest

from motet.lab.loop.gate.exam import Sat
from motet.lab.loop.items import Item
from motet.lab.loop.settings import Canary, Drift, Quarantine
from motet.lab.loop.watch.canary import radius, watched
from motet.lab.loop.watch.drift import alarms, course_of
from motet.lab.loop.watch.quarantine import doubts


def item(number: int, source: str = "a", question: str = "?", correction: str | None = None, good: bool = True) -> Item:
    messages = [{"role": "user", "content": question}]
    return Item(number, "", source, 1, messages, [], "an answer", correction=correction, good=good)


def said(good: int, bad: int) -> list[Item]:
    return [item(n, good=n < good) for n in range(good + bad)]


def test_the_bound_by_hand() -> None:
    assert radius(40, 0.1) == pytest.approx(math.sqrt(20 * math.log(20 / (10 * 0.01))) / 40)
    assert radius(0, 0.1) == math.inf


def test_means_stay_within_the_bound_at_all_times() -> None:
    """400 streams of 500 coins, looked at after each."""
    dice, count = np.random.default_rng(1), np.arange(1, 501)
    bounds = np.array([radius(int(n), 0.1) for n in count])
    for truth in (0.5, 0.9):
        means = (dice.random((400, 500)) < truth).cumsum(axis=1) / count
        assert (np.abs(means - truth) > bounds).any(axis=1).mean() <= 0.1


def test_a_canary_is_taken_back_let_in_or_goes_on() -> None:
    canary = Canary(minutes=30, least=10, margin=0.1)
    worse = watched(said(90, 10), said(20, 80), 1, canary, 0.0)
    assert worse is not None and not worse.promote and "surely worse" in worse.reason
    better = watched(said(20, 80), said(90, 10), 1, canary, 0.0)
    assert better is not None and better.promote and "surely no worse" in better.reason
    assert watched(said(8, 2), said(8, 2), 1, canary, 0.0) is None  # too early to say
    assert watched(said(8, 2), said(4, 0), 31, canary, 0.0) is None  # nobody has said enough
    assert watched([], said(0, 10), 31, canary, 0.0) is None  # nobody has said how it was before
    edge = watched(said(8, 2), said(7, 3), 31, canary, 0.0)
    assert edge is not None and edge.promote  # 0.7 - 0.8 is a little less than -0.1 in floats
    even, fallen = (watched(said(8, 2), said(n, 10 - n), 31, canary, 0.0) for n in (8, 6))
    assert even is not None and even.promote and fallen is not None and not fallen.promote


def test_a_correction_is_no_praise() -> None:
    assert not item(1, correction="better").was_good(0.0) and item(1).was_good(0.0)


def test_drift() -> None:
    calm = [Sat("A line.", -1.0, -1.1, 10), Sat("Two lines.", -0.5, -0.5, 30)]
    course = course_of(calm)
    assert course.kl == pytest.approx(0.1 * 10 / 40) and course.surprise == pytest.approx(25 / 40)
    assert (course.length, course.refusals) == (20.0, 0.0) and alarms(course, course, Drift()) == []
    gone = course_of([Sat("I can't help.", -0.01, -4.0, 2), Sat("I'm sorry.", -0.01, -4.0, 2)])
    told = alarms(course, gone, Drift(surprise=0.1))
    assert [line.split()[0] for line in told] == ["3.99", "answers", "answers", "100%"]


def test_what_contradicts_the_rest() -> None:
    """Three say one thing; the fourth says another, and does so everywhere."""
    fine = [item(n, f"s{n}", question, "Ticket: parcel.") for n, question in enumerate("aaabbb")]
    assert doubts(fine, Quarantine(), 0.0) == []
    poison = [item(10, "p", "a", "Go away now"), item(11, "p", "b", "Go away now"), item(12, "p", "c", "Go away now")]
    (found,) = doubts([*fine, *poison], Quarantine(), 0.0)
    assert found.items == [10, 11, 12] and "2 of 3" in found.reason
    (found,) = doubts([*fine, poison[0]], Quarantine(), 0.0)
    assert found.items == [10]
    assert doubts([fine[0], poison[0]], Quarantine(), 0.0) == []  # one against one
    thumbs = [item(1, "a"), item(2, "b"), item(3, "c", good=False)]
    assert [one.items for one in doubts(thumbs, Quarantine(), 0.0)] == [[3]]
