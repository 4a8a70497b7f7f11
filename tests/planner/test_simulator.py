"""The simulation against the law where both answer, and by hand where only it does."""

from __future__ import annotations

import pytest

from motet.planner.fit import Measured, fit_exclusive, fit_shared
from motet.planner.law import Batched, NoLimit, OneAtATime, Station, solve
from motet.planner.line import Job
from motet.planner.simulator import Failure, Simulation

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
    ended = Simulation(stations, level, seed=level).run([Job("t", 0.0, steps)] * level).ended
    assert max(one.ended for one in ended) / steps == pytest.approx(solve(stations, level)[-1].step, rel=0.05)


def test_fixed_times_by_hand() -> None:
    """Two experiments of two steps, one station of 3 s: nobody is faster than the other, and the queue is shared."""
    simulation = Simulation([OneAtATime(3.0)], 2, variability="fixed")
    ended = simulation.run([Job("a", 0.0, 2), Job("b", 0.0, 2), Job("c", 1.0, 1)]).ended
    assert [(one.job.tenant, one.began, one.ended) for one in ended] == [
        ("a", 0.0, pytest.approx(12.0)),
        ("b", 0.0, pytest.approx(12.0)),
        ("c", pytest.approx(12.0), pytest.approx(15.0)),
    ]
    assert ended[2].waited == pytest.approx(11.0)


def test_a_failure_throws_the_step_in_hand_away() -> None:
    simulation = Simulation([OneAtATime(4.0)], 1, variability="fixed")
    outcome = simulation.run([Job("a", 0.0, 2)], [Failure(at=6.0, seconds=10.0)])
    (ended,) = outcome.ended
    assert outcome.lost == 1
    assert ended.ended == pytest.approx(6 + 10 + 4)  # a step of 4, two seconds lost, ten away, the second step again


def test_thousands_of_tenants_with_skewed_arrivals() -> None:
    """One tenant in ten brings nine jobs in ten; everything ends, and nobody overtakes the bottleneck."""
    jobs = [Job(f"t{place % (100 if place % 10 else 1000)}", place * 0.01, 1) for place in range(2000)]
    stations = fit_shared(Measured(1, 4.70), Measured(2, 7.13)).stations
    ended = Simulation(stations, 16, seed=1).run(jobs).ended
    assert len(ended) == len(jobs)
    whole = max(one.ended for one in ended)
    assert whole == pytest.approx(len(jobs) / solve(stations, 16)[-1].throughput, rel=0.05)


def test_the_published_system_at_eight() -> None:
    stations = fit_exclusive(Measured(1, 191), Measured(2, 215)).stations
    ended = Simulation(stations, 8, seed=3).run([Job("t", 0.0, 300)] * 8).ended
    assert max(one.ended for one in ended) / 300 == pytest.approx(500, rel=0.15)


def test_a_fair_line_lets_a_small_tenant_in_before_a_big_one_ends() -> None:
    """Nine of one tenant came first, two at a time in 2 s: first come waits for eight of them, fair for two."""
    jobs = [Job("big", 0.0, 1)] * 9 + [Job("small", 0.5, 1)]
    for fair, waits in ((False, 7.5), (True, 1.5)):
        outcome = Simulation([OneAtATime(1.0)], 2, variability="fixed", fair=fair).run(jobs)
        (small,) = [one for one in outcome.ended if one.job.tenant == "small"]
        assert small.waited == pytest.approx(waits)


def test_two_nodes_and_the_loss_of_one_by_hand() -> None:
    """Steps of 2 s, one experiment a node. The second node is away from 1 to 100: its experiment waits."""
    outcome = Simulation([OneAtATime(2.0)], 1, nodes=2, variability="fixed").run(
        [Job("a", 0.0, 3), Job("b", 0.0, 1)], [Failure(at=1.0, seconds=99.0, node=1)]
    )
    assert [(one.job.tenant, one.ended) for one in outcome.ended] == [("a", 6.0), ("b", 8.0)]
    assert (outcome.lost, outcome.busy) == (1, (pytest.approx((8 + 1) / 8 / 2),))


def test_what_is_before_the_first_step_is_gone_through_once() -> None:
    outcome = Simulation([OneAtATime(2.0)], 1, variability="fixed", opening=NoLimit(5.0)).run([Job("a", 0.0, 3)])
    assert outcome.ended[0].ended == pytest.approx(5 + 3 * 2)
