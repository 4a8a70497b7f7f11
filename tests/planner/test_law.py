"""The capacity law: by hand, within the bounds of operational analysis, against the published table and our own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from motet.cli import app
from motet.errors import BadConfig
from motet.planner.advice import advise
from motet.planner.fit import Measured, fit_apart, fit_exclusive, fit_shared, with_outside
from motet.planner.law import Batched, NoLimit, OneAtATime, solve
from motet.planner.makespan import Law, Outside, Work, waiting
from motet.planner.published import TABLE, WORK

seconds = st.floats(min_value=0.01, max_value=1000)


def test_two_stations_by_hand() -> None:
    """D = 1 and 1: R(2) = 1 (1 + 1/2) twice; a delay of 2 and a queue of 1: R(2) = 2 + 1 + 1/3."""
    assert [point.step for point in solve([OneAtATime(1), OneAtATime(1)], 3)] == pytest.approx([2, 3, 4])
    assert [point.step for point in solve([NoLimit(2), OneAtATime(1)], 2)] == pytest.approx([3, 3 + 1 / 3])
    assert [point.step for point in solve([Batched(3, 1)], 4)] == pytest.approx([4, 5, 6, 7])


@given(seconds, seconds, seconds, st.integers(1, 30))
def test_the_bounds_of_operational_analysis_hold(delay: float, queue: float, fixed: float, most: int) -> None:
    """X(N) <= min(N / sum D, 1 / D_max), throughput never falls, and Little's law."""
    points = solve([NoLimit(delay), OneAtATime(queue), Batched(fixed, queue)], most)
    for before, point in zip([None, *points], points, strict=False):
        assert point.throughput * point.step == pytest.approx(point.level)
        assert point.throughput <= min(point.level / points[0].step, 1 / queue) * (1 + 1e-9)
        assert before is None or point.throughput >= before.throughput * (1 - 1e-9)


def test_the_published_table_from_its_first_two_rows() -> None:
    """The issue's bound is 15 percent."""
    table = fit_exclusive(*(Measured(row.level, row.step) for row in TABLE[:2])).table(WORK)
    for row in TABLE[2:]:
        said = table[row.level - 1]
        for name in ("last", "mean", "step"):
            assert getattr(said, name) == pytest.approx(getattr(row, name), rel=0.10), (row.level, name)


def test_our_own_table_from_its_first_two_rows() -> None:
    """docs/benchmarks.md, 2026-12-01: `motet bench concurrency examples/bench.toml`."""
    alone, two = Measured(1, 4.70, last=116), Measured(2, 7.13, last=88.2)
    table = with_outside(fit_shared(alone, two), alone, two, Work(8, 3)).table(Work(8, 3))
    assert [row.last for row in table[:2]] == pytest.approx([116, 88.2])
    for level, last, step in ((4, 78.7, 12.6), (8, 69.8, 22.1)):
        said = table[level - 1]
        assert (said.last, said.step) == (pytest.approx(last, rel=0.10), pytest.approx(step, rel=0.10))


def test_waves_by_hand() -> None:
    points = solve([Batched(1, 1)], 3)  # steps of 2, 3, 4 s
    said = waiting(points, Work(experiments=5, steps=10), 3)
    assert (said.first, said.last, said.step) == (40, 40 + 30, 4)
    assert said.mean == pytest.approx((3 * 40 + 2 * 70) / 5)


def test_advice() -> None:
    law = fit_shared(Measured(1, 4.70), Measured(2, 7.13))
    assert advise(law.table(Work(8, 3))).level == 8
    bounded = advise(law.table(Work(8, 3)), slowest_step=10.0)
    assert bounded.level == 3
    assert "a step would take" in bounded.why
    flat = advise(Law([OneAtATime(1.0)]).table(Work(8, 3)))
    assert flat.level == 1 and "would save less" in flat.why
    assert advise(law.table(Work(1, 3))).why == "there is but one experiment"


def test_two_batched_stations_are_found_again() -> None:
    """Times that two batches of known parts give are fitted by those parts, if not exactly: U is but the part alone."""
    points = solve([Batched(1.0, 0.5), Batched(0.3, 0.9)], 2)
    alone, two = (Measured(p.level, p.step, rollout=p.times[0], training=p.times[1]) for p in points)
    law = fit_apart(alone, two)
    assert solve(law.stations, 2)[1].step == pytest.approx(points[1].step, rel=0.02)
    assert solve(law.stations, 8)[7].step == pytest.approx(
        solve([Batched(1.0, 0.5), Batched(0.3, 0.9)], 8)[7].step, rel=0.05
    )


def test_what_is_outside_of_steps_by_hand() -> None:
    """Two steps of 1 s alone and 1.5 beside another; four experiments in 16 s one by one, in 12 s two by two."""
    alone, two, work = Measured(1, 1.0, last=16.0), Measured(2, 1.5, last=12.0), Work(4, 2)
    law = with_outside(fit_shared(alone, two), alone, two, work)
    assert law.outside == Outside(alone=2.0, beside=1.0)
    assert with_outside(law, Measured(1, 1.0), two, work) is law


@pytest.mark.parametrize("two", [3.0, 4.70, 9.40, 12.0])
def test_steps_of_no_such_network_are_told(two: float) -> None:
    for fit in (fit_shared, fit_exclusive):
        with pytest.raises(BadConfig, match="measure again"):
            fit(Measured(1, 4.70), Measured(2, two))


def test_commands(tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        ended = CliRunner().invoke(app, ["plan", *arguments])
        return ended.exit_code, ended.output

    code, told = run("published")
    assert code == 0 and "15244" in told and "542" in told
    file = tmp_path / "bench.json"
    rest = {"mean experiment, s": 9.0}
    rows = [
        {"way": "serial, warm", "step, s": 4.7, "last finishes, s": 116, **rest},
        {"way": "N = 2", "step, s": 7.13, "last finishes, s": 88.2, **rest},
        {"way": "N = 2, a core each", "step, s": 8.98, "last finishes, s": 111, **rest},
        {"way": "N = 8", "step, s": 22.1, "last finishes, s": 69.8, **rest},
    ]
    file.write_text(json.dumps({"rows": rows}))
    code, told = run("experiments", "--from", str(file), "--steps", "3")
    assert code == 0 and "8 at a time: all 8 at a time" in told and "21.7" in told
    code, told = run("experiments", "--from", str(file), "--steps", "3", "--beside", str(file))
    assert code == 0 and "(-1.8%)" in told
    assert run("experiments", "--from", str(file), "--way", "a core each")[0] == 2  # its N = 1 was not measured
    assert run("experiments") == (
        2,
        "error: give --alone and --two, or --from a file of `motet bench concurrency --json`\n",
    )
    file.write_text("{}")
    assert run("experiments", "--from", str(file))[0] == 2
