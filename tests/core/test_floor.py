"""Two lanes on one floor: never both, budgets of device time while both want it, and a bound on every wait."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import pytest

from motet.engine.core.floor import LONGEST_WAIT, Floor
from motet.engine.types import Lane


@dataclass
class Crew:
    """Two threads that work on a floor without a pause, in works of several parts with a breath after each."""

    floor: Floor
    sampling_part: float = 0.002
    training_part: float = 0.01
    parts: int = 1
    inside: list[Lane] = field(default_factory=list)
    clashes: list[Lane] = field(default_factory=list)

    def work(self, lane: Lane, part: float, until: float) -> None:
        while time.perf_counter() < until:
            with self.floor.held(lane):
                for _ in range(self.parts):
                    self.inside.append(lane)
                    self.clashes += self.inside[1:]
                    time.sleep(part)
                    self.inside.remove(lane)
                    self.floor.breathe(lane)

    def run(self, seconds: float) -> None:
        until = time.perf_counter() + seconds
        lanes: list[tuple[Lane, float]] = [("sampling", self.sampling_part), ("training", self.training_part)]
        threads = [threading.Thread(target=self.work, args=(*lane, until)) for lane in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @property
    def sampling_share(self) -> float:
        clocks = self.floor.clocks
        return clocks["sampling"].busy / (clocks["sampling"].busy + clocks["training"].busy)


@pytest.mark.parametrize("budget", [0.5, 0.75, 0.25])
@pytest.mark.parametrize("parts", [1, 10])
def test_shared_cores_are_held_by_one_lane_and_shared_by_budget(budget: float, parts: int) -> None:
    crew = Crew(Floor(True, lambda lane: budget if lane == "sampling" else 1 - budget), parts=parts)
    crew.run(0.8)
    assert crew.clashes == []
    assert crew.sampling_share == pytest.approx(budget, abs=0.12)


def test_own_cores_are_never_waited_for() -> None:
    crew = Crew(Floor(exclusive=False))
    crew.run(0.2)
    assert crew.clashes != []


@pytest.mark.parametrize("patient", [False, True])
def test_neither_lane_waits_longer_than_the_bound_whatever_the_budgets(patient: bool) -> None:
    floor = Floor(True, lambda lane: 0.99 if lane == "training" else 0.01, patient)
    crew = Crew(floor, training_part=0.03, parts=100)
    crew.run(3.0)
    waits = {lane: clock.longest_wait for lane, clock in floor.clocks.items()}
    assert LONGEST_WAIT / 2 < waits["sampling"] < LONGEST_WAIT + 0.15  # it does wait: its budget is next to nothing
    assert waits["training"] < LONGEST_WAIT + 0.15


def test_a_lane_alone_has_everything() -> None:
    floor = Floor(True, lambda lane: 0.01)
    began = time.perf_counter()
    for _ in range(20):
        with floor.held("sampling"):
            time.sleep(0.01)
            floor.breathe("sampling")
    assert floor.clocks["sampling"].busy > 0.9 * (time.perf_counter() - began)
    assert floor.clocks["sampling"].longest_wait < 0.01


def test_a_lane_between_two_works_keeps_its_turn() -> None:
    """The lane with the larger budget is not pushed out in the moment in which it fetches its next work."""
    crew = Crew(Floor(True, lambda lane: 0.9 if lane == "sampling" else 0.1), sampling_part=0.005, training_part=0.02)
    crew.run(1.0)
    assert crew.sampling_share > 0.5  # without that: 0.2


def test_a_long_pass_lets_the_other_lane_in_at_its_breaths() -> None:
    floor = Floor(exclusive=True)
    entered = threading.Event()

    def sample() -> None:
        with floor.held("sampling"):
            entered.set()

    with floor.held("training"):
        thread = threading.Thread(target=sample)
        thread.start()
        time.sleep(0.1)
        assert not entered.is_set()
        floor.breathe("training")
        assert entered.is_set()
    thread.join()


def test_the_lane_of_answers_comes_before_its_turn_and_leaves_the_other_its_bound() -> None:
    floor = Floor(True, lambda lane: 0.99 if lane == "training" else 0.01, serving=lambda: True)
    crew = Crew(floor, sampling_part=0.005, training_part=0.02, parts=20)
    crew.run(1.5)
    assert crew.clashes == [] and crew.sampling_share > 0.7
    waits = {lane: clock.longest_wait for lane, clock in floor.clocks.items()}
    assert waits["sampling"] < 0.15 < waits["training"] < LONGEST_WAIT + 0.15
