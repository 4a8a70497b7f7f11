"""Order within a run, whatever the order of arrival."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.errors import BadRequest
from motet.service.http.ordering import WINDOW, RunOrder


@given(st.integers(1, 30).flatmap(lambda n: st.permutations(range(1, n + 1))))
def test_requests_start_once_and_by_number(arrivals: list[int]) -> None:
    order, started = RunOrder(), []
    for position, number in enumerate(arrivals):
        assert not order.knows(number)
        order.arrive(number, lambda number=number: started.append(number))
        assert order.knows(number)
        arrived = set(arrivals[: position + 1])
        first_missing = next(n for n in range(1, len(arrivals) + 2) if n not in arrived)
        assert started == list(range(1, first_missing))
        assert order.held == len(arrived) - len(started)
    assert started == sorted(arrivals)


@given(st.lists(st.integers(1, 12), max_size=40))
def test_a_repeated_request_is_known_for_ever(arrivals: list[int]) -> None:
    order, started = RunOrder(), []
    for number in arrivals:
        if not order.knows(order.number(number)):
            order.arrive(number, lambda number=number: started.append(number))
    assert started == list(range(1, len(started) + 1))


def test_a_request_without_a_number_takes_the_first_free_one() -> None:
    order = RunOrder()
    assert order.number(None) == 1
    order.arrive(2, lambda: None)
    assert order.number(None) == 1
    order.arrive(1, lambda: None)
    assert order.number(None) == 3


@pytest.mark.parametrize("number", [0, -1, WINDOW + 1, 2**31])
def test_numbers_out_of_bounds_are_refused(number: int) -> None:
    with pytest.raises(BadRequest, match="next request is 1"):
        RunOrder().number(number)
