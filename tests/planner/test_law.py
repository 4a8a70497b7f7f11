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
from motet.planner.fit import fit_exclusive, fit_shared
from motet.planner.law import Batched, NoLimit, OneAtATime, solve
from motet.planner.makespan import Work, waiting
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
    points = solve(fit_exclusive(TABLE[0].step, TABLE[1].step), WORK.experiments)
    for row in TABLE[2:]:
        said = waiting(points, WORK, row.level)
        for name in ("last", "mean", "step"):
            assert getattr(said, name) == pytest.approx(getattr(row, name), rel=0.10), (row.level, name)


def test_our_own_table_from_its_first_two_rows() -> None:
    """docs/benchmarks.md, 2026-12-01: `motet bench concurrency examples/bench.toml`."""
    points = solve(fit_shared(4.70, 7.13), 8)
    for level, last, step in ((4, 78.7, 12.6), (8, 69.8, 22.1)):
        said = waiting(points, Work(8, 3), level)
        assert (said.last, said.step) == (pytest.approx(last, rel=0.10), pytest.approx(step, rel=0.10))


def test_waves_by_hand() -> None:
    points = solve([Batched(1, 1)], 3)  # steps of 2, 3, 4 s
    said = waiting(points, Work(experiments=5, steps=10), 3)
    assert (said.first, said.last, said.step) == (40, 40 + 30, 4)
    assert said.mean == pytest.approx((3 * 40 + 2 * 70) / 5)


def test_advice() -> None:
    points = solve(fit_shared(4.70, 7.13), 8)
    assert advise(points, Work(8, 3)).level == 8
    bounded = advise(points, Work(8, 3), slowest_step=10.0)
    assert bounded.level == 3 - 1 or bounded.level == 3
    assert "a step would take" in bounded.why
    flat = advise(solve([OneAtATime(1.0)], 8), Work(8, 3))
    assert flat.level == 1 and "would save less" in flat.why
    assert advise(points, Work(1, 3)).level == 1


@pytest.mark.parametrize("two", [3.0, 4.70, 9.40, 12.0])
def test_steps_of_no_such_network_are_told(two: float) -> None:
    for fit in (fit_shared, fit_exclusive):
        with pytest.raises(BadConfig, match="measure again"):
            fit(4.70, two)


def test_commands(tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        ended = CliRunner().invoke(app, ["plan", *arguments])
        return ended.exit_code, ended.output

    code, told = run("published")
    assert code == 0 and "15244" in told and "542" in told
    file = tmp_path / "bench.json"
    file.write_text(json.dumps({"rows": [{"way": "serial, warm", "step, s": 4.7}, {"way": "N = 2", "step, s": 7.13}]}))
    code, told = run("experiments", "--from", str(file), "--steps", "3")
    assert code == 0 and "8 at a time: all 8 at a time" in told and "65.1" in told
    assert run("experiments") == (
        2,
        "error: give --alone and --two, or --from a file of `motet bench concurrency --json`\n",
    )
    file.write_text("{}")
    assert run("experiments", "--from", str(file))[0] == 2
