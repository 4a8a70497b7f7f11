"""A canary on a real server: people meet the candidate, and what they say decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from motet.lab.experiments.door import Door, choose_model
from motet.lab.loop.examiner import Examiner
from motet.lab.loop.judges import Sides, Verdict
from motet.lab.loop.log import Log
from motet.lab.loop.rounds import Rounds
from motet.lab.loop.settings import Policy, load
from tests.loop.conftest import Tenant
from tests.loop.driver import play

FILE = """
name = "desk"
when = {items = 4, minutes = 0, held_out = 0.0}
learn = {corrections = "sft", epochs = 1, rank = 4}
canary = {share = 0.5, minutes = 0, least = 6, margin = 0.2}
"""


class Lenient(Examiner):
    """A gate that lets all through; the watch is the real one."""

    async def gate(self, sides: Sides, items: object) -> Verdict:
        return Verdict(True, "let through")


def opened(tenant: Tenant, folder: Path) -> Rounds:
    (folder / "desk.toml").write_text(FILE)
    policy: Policy = load(folder / "desk.toml")
    door = Door(tenant.address, tenant.key, choose_model(tenant.address, tenant.key, None))
    return Rounds(policy, door, folder, Log(folder, "desk", Console()), Lenient(policy, door))


@pytest.mark.parametrize(
    ("key", "liked", "event", "serving"),
    [("tml-liked", lambda n: True, "promote", 2), ("tml-hated", lambda n: n == 0, "canary", 1)],
)
def test_live_feedback_decides(
    loop_address: str, tmp_path: Path, key: str, liked: Callable[[int], bool], event: str, serving: int
) -> None:
    tenant = Tenant(loop_address, key)
    rounds = opened(tenant, tmp_path)
    asyncio.run(play(rounds))
    tenant.correct("desk", ["A?", "B?", "C?", "D?"])
    assert asyncio.run(play(rounds)) == ["gather", "learn", "bring", "gate"]
    name = tenant.names.show("desk")
    assert (name["serving"], name["candidate"], name["canary"]) == (1, 2, 0.5)
    for number in range(5):
        tenant.say(tenant.ask("desk@v1", f"{number}?"), thumbs="up")
        tenant.say(tenant.ask("desk@v2", f"{number}?"), thumbs="up" if liked(number) else "down")
    assert asyncio.run(play(rounds)) == []  # five are not yet enough
    tenant.say(tenant.ask("desk@v2", "5?"), thumbs="up" if liked(5) else "down")
    assert asyncio.run(play(rounds)) == []  # six to the candidate, five to what serves
    tenant.say(tenant.ask("desk@v1", "5?"), thumbs="up")
    assert asyncio.run(play(rounds))[0] == "canary"
    name = tenant.names.show("desk")
    turn = [one for one in name["history"] if one["version"] == 2][-1]
    assert (name["serving"], turn["event"]) == (serving, event)
    assert "100% of 6 good before" in turn["reason"]
