"""The simulation against the law where both answer, and by hand where only it does."""

from __future__ import annotations

import pytest

from motet.planner.fit import fit_exclusive, fit_shared
from motet.planner.law import Batched, NoLimit, OneAtATime, Station, solve
from motet.planner.simulator import Failure, Job, Simulation

NETWORKS: list[list[Station]] = [
    [NoLimit(1.2), OneAtATime(0.7)],
    [OneAtATime(1.0), OneAtATime(1.0)],
    [Batched(2.0, 0.5)],
    [Batched(1.0, 0.2), OneAtATime(0.4)],
]


@pytest.mark.parametrize("stations", NETWORKS)
@pytest.mark.parametrize("level", [1, 3, 8])
def test_steps_take_as_long_as_the_law_says(stations: list[Station], level: int) -> None:
    steps = 3000
    ended = Simulation(stations, level, seed=level).run([Job("t", 0.0, steps)] * level)
    assert max(one.ended for one in ended) / steps == pytest.approx(solve(stations, level)[-1].step, rel=0.05)


def test_fixed_times_by_hand() -> None:
    """Two experiments of two steps, one station of 3 s: nobody is faster than the other, and the queue is shared."""
    simulation = Simulation([OneAtATime(3.0)], 2, variability="fixed")
    ended = simulation.run([Job("a", 0.0, 2), Job("b", 0.0, 2), Job("c", 1.0, 1)])
    assert [(one.job.tenant, one.began, one.ended) for one in ended] == [
        ("a", 0.0, pytest.approx(12.0)),
        ("b", 0.0, pytest.approx(12.0)),
        ("c", pytest.approx(12.0), pytest.approx(15.0)),
    ]
    assert ended[2].waited == pytest.approx(11.0)


def test_a_failure_throws_the_step_in_hand_away() -> None:
    simulation = Simulation([OneAtATime(4.0)], 1, variability="fixed")
    (ended,) = simulation.run([Job("a", 0.0, 2)], [Failure(at=6.0, seconds=10.0)])
    assert ended.ended == pytest.approx(6 + 10 + 4)  # a step of 4, two seconds lost, ten away, the second step again


def test_thousands_of_tenants_with_skewed_arrivals() -> None:
    """One tenant in ten brings nine jobs in ten; everything ends, and nobody overtakes the bottleneck."""
    jobs = [Job(f"t{place % (100 if place % 10 else 1000)}", place * 0.01, 1) for place in range(2000)]
    stations = fit_shared(4.70, 7.13)
    ended = Simulation(stations, 16, seed=1).run(jobs)
    assert len(ended) == len(jobs)
    whole = max(one.ended for one in ended)
    assert whole == pytest.approx(len(jobs) / solve(stations, 16)[-1].throughput, rel=0.05)


def test_the_published_system_at_eight() -> None:
    stations = fit_exclusive(191, 215)
    ended = Simulation(stations, 8, seed=3).run([Job("t", 0.0, 300)] * 8)
    assert max(one.ended for one in ended) / 300 == pytest.approx(500, rel=0.15)
