"""What a tenant has against what it may have; and its pace."""

from __future__ import annotations

import pytest

from motet.errors import Busy
from motet.service.http.gate import LONGEST_WAIT, Pace
from motet.service.http.holdings import Holdings, Place
from motet.service.http.quotas import OverQuota, Quotas
from motet.service.http.registry import Registry

SMALL = Quotas(queued_tokens=100, queued_requests=4)


def holdings(own: dict[str, float] | None = None) -> Holdings:
    return Holdings(Registry(), SMALL, lambda tenant: own or {} if tenant == "red" else {})


def begun(place: Place) -> Place:
    place.begin()
    return place


def test_a_full_queue_that_empties_by_itself_says_come_again() -> None:
    book = holdings()
    first = begun(book.enter("red", 60, 0))
    with pytest.raises(Busy):
        book.enter("red", 60, 0)
    book.enter("blue", 60, 0)  # another tenant is not concerned
    first.leave()
    book.enter("red", 60, 0)


def test_a_full_queue_that_waits_for_its_client_says_so() -> None:
    """Requests that wait for an earlier number never end while that one is refused: coming again would be for ever."""
    book = holdings()
    held = book.enter("red", 60, 0)
    with pytest.raises(OverQuota, match="send less"):
        book.enter("red", 60, 0)
    assert not isinstance(OverQuota("x"), Busy)
    held.begin()
    with pytest.raises(Busy):
        book.enter("red", 60, 0)


def test_requests_and_bodies_count_too() -> None:
    book = holdings()
    for _ in range(4):
        begun(book.enter("red", 1, 0))
    with pytest.raises(Busy):
        book.enter("red", 1, 0)
    with pytest.raises(OverQuota):
        book.enter("blue", 0, 64 * 101)


def test_what_has_left_leaves_nothing() -> None:
    book = holdings()
    for number in range(50):
        place = book.enter("red", 100, 0)
        if number % 2:
            place.begin()
            place.begin()
        place.leave()
    book.enter("red", 100, 0)
    with pytest.raises(OverQuota):  # nothing counts as begun
        book.enter("red", 1, 0)


def test_a_tenants_own_quota_counts() -> None:
    book = holdings({"queued_tokens": 1000})
    book.enter("red", 900, 0)
    with pytest.raises(OverQuota):
        book.enter("blue", 900, 0)


def test_the_pace() -> None:
    """A second's worth passes at once, then one by one; who would wait too long is told; silence is paid back."""
    now = 100.0
    pace = Pace(lambda: now)
    waits = [pace.wait("red", 10.0) for _ in range(30)]
    assert waits[:10] == [0.0] * 10
    assert waits[11:] == pytest.approx([0.1 * n for n in range(1, 20)])
    assert pace.wait("blue", 10.0) == 0.0
    pace.wait("red", 10.0)
    with pytest.raises(Busy):
        [pace.wait("red", 10.0) for _ in range(2)]
    now += LONGEST_WAIT + 1.0
    assert [pace.wait("red", 10.0) for _ in range(10)] == pytest.approx([0.0] * 10)


def test_the_paces_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motet.service.http.gate.MAX_TURNS", 100)
    now = 0.0
    pace = Pace(lambda: now)
    for number in range(1000):
        now += 0.1
        pace.wait(str(number), 10.0)
    assert len(pace._next) <= 101
