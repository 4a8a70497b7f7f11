"""A version that changes nothing sits the real exam against itself, 100 times, with answers that are drawn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from motet.lab.experiments.door import Door, choose_model
from motet.lab.loop.gate.decision import SetResult, judge
from motet.lab.loop.gate.exam import Room, exam_room
from motet.lab.loop.gate.sets import Question
from tests.loop.conftest import Tenant
from tests.loop.driver import play
from tests.loop.test_canary import opened

LEVEL, TRIALS = 0.05, 100
MOST = 10  # of 100 at 0.05: more have a chance of 0.011


@pytest.mark.long
def test_a_null_update_passes_no_more_often_than_stated(loop_address: str, tmp_path: Path) -> None:
    """Both sides draw with seeds of their own: with the same ones all answers would be the same."""
    tenant = Tenant(loop_address, "tml-nulls")
    asyncio.run(play(opened(tenant, tmp_path)))
    path = tenant.names.show("desk")["versions"][0]["path"]
    door = Door(tenant.address, tenant.key, choose_model(tenant.address, tenant.key, None))
    results = asyncio.run(trials(door, path))
    moved = [one for one in results if list(one.before) != list(one.after)]
    assert len(moved) > TRIALS / 2, "a null update without any chance in it would show nothing"
    passed = sum(judge([one], LEVEL, number).promote for number, one in enumerate(results))
    print(f"{passed} of {TRIALS} passed; answers differed in {len(moved)}")
    assert passed <= MOST


async def trials(door: Door, path: str) -> list[SetResult]:
    """One version in both seats."""
    questions = [
        Question([{"role": "user", "content": f"Is it {n} o'clock?"}], [], answer="e t a o i n s r") for n in range(10)
    ]
    async with exam_room(door, path, path, temperature=1.0) as room:
        return [await trial(room, questions, number) for number in range(TRIALS)]


async def trial(room: Room, questions: Sequence[Question], number: int) -> SetResult:
    sat = [await side.answers(questions, 8, 2 * number + n) for n, side in enumerate((room.before, room.after))]
    before, after = ([q.score(one.text) for q, one in zip(questions, own, strict=True)] for own in sat)
    return SetResult("null", "target", before, after, margin=9.0)
