"""Two lanes on one floor: never both, and equal shares while both want it."""

from __future__ import annotations

import threading
import time

from motet.engine.core.floor import Floor, Lane


def work(floor: Floor, lane: Lane, piece: float, until: float, inside: list[Lane], clashes: list[Lane]) -> None:
    while time.perf_counter() < until:
        with floor.held(lane):
            inside.append(lane)
            clashes += inside[1:]
            time.sleep(piece)
            inside.remove(lane)


def both(floor: Floor, seconds: float) -> list[Lane]:
    inside: list[Lane] = []
    clashes: list[Lane] = []
    until = time.perf_counter() + seconds
    lanes: list[tuple[Lane, float]] = [("sampling", 0.002), ("training", 0.02)]
    threads = [threading.Thread(target=work, args=(floor, *lane, until, inside, clashes)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clashes


def test_shared_cores_are_held_by_one_lane_and_shared_by_time() -> None:
    floor = Floor(exclusive=True)
    assert both(floor, 0.6) == []
    share = floor.clocks["sampling"].busy / (floor.clocks["sampling"].busy + floor.clocks["training"].busy)
    assert 0.3 < share < 0.7


def test_own_cores_are_never_waited_for() -> None:
    floor = Floor(exclusive=False)
    assert both(floor, 0.2) != []


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
