"""Rounds on a real server: what they claim, what they leave, and that they go on after any end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from motet.lab.loop.settings import Policy, load
from tests.loop.conftest import Tenant
from tests.loop.driver import play, rounds

QUESTIONS = [f"Is it {number} o'clock?" for number in range(8)]
FILE = """
name = "desk"
seed = 3
when = {items = 8, least = 2, minutes = 0, held_out = 0.3}
learn = {corrections = "sft", epochs = 2, batch = 3, rank = 4, learning_rate = 1e-3}
canary = {share = 0.5}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "desk.toml").write_text(FILE)
    return tmp_path / "desk.toml"


def undisturbed(tenant: Tenant, policy: Policy, folder: Path) -> list[str]:
    return asyncio.run(play(rounds(policy, tenant.address, tenant.key, folder)))


def test_a_round_from_feedback_to_promotion(loop_address: str, file: Path, tmp_path: Path) -> None:
    tenant, policy = Tenant(loop_address, "tml-whole"), load(file)
    assert undisturbed(tenant, policy, tmp_path) == ["open"]
    assert tenant.names.show("desk")["serving"] == 1
    given = tenant.correct("desk", QUESTIONS)
    assert undisturbed(tenant, policy, tmp_path) == ["gather", "learn", "bring", "gate", "canary"]
    name = tenant.names.show("desk")
    assert (name["serving"], name["candidate"]) == (2, None)
    told = [(one["event"], one["version"]) for one in name["history"]]
    assert told == [("candidate", 1), ("promote", 1), ("candidate", 2), ("canary", 2), ("promote", 2)]
    assert name["history"][-1]["reason"] == "nobody complains" and name["history"][-1]["by"] == "motet loop"
    (training,) = tenant.records.trainings("desk")
    assert training["state"] == "done" and training["version"] == 2 and training["key"] == "desk-1"
    assert sorted(training["items"] + training["held_out"]) == given and training["held_out"]
    assert training["parent"] == name["versions"][0]["path"]
    assert training["recipe"]["learn"]["corrections"] == "sft" and training["recipe"]["round"] == 1
    assert undisturbed(tenant, policy, tmp_path) == []  # nothing is left to learn


def test_two_rounds_on_one_another(loop_address: str, file: Path, tmp_path: Path) -> None:
    """The second begins from what serves, and learns some of the first's again."""
    tenant, policy = Tenant(loop_address, "tml-two"), load(file)
    undisturbed(tenant, policy, tmp_path)
    for hour in ("o'clock", "hours"):
        tenant.correct("desk", [f"Is it {number} {hour}?" for number in range(8)])
        undisturbed(tenant, policy, tmp_path)
    first, second = tenant.records.trainings("desk")
    assert second["parent"] == first["path"] and tenant.names.show("desk")["serving"] == 3
    assert second["replayed"] and set(second["replayed"]) < set(first["items"])
    assert len(second["replayed"]) == round(0.5 * len(second["items"]))


def lives(tenant: Tenant, file: Path, folder: Path, ends: list[str]) -> None:
    """One process after the other, each killed at its end; the last one comes to rest by itself."""
    for end in [*ends, ""]:
        command = [sys.executable, "-m", "tests.loop.driver", str(file), tenant.address, tenant.key, str(folder), end]
        code = subprocess.run(command, timeout=240, check=False).returncode
        assert code == (-9 if end else 0), end


def same_end(one: Tenant, other: Tenant) -> None:
    """Versions to the bit, histories, and what was claimed."""
    for tenant in (one, other):
        for training in tenant.records.trainings("desk"):
            assert training["state"] == "done"
    names = [tenant.names.show("desk") for tenant in (one, other)]
    assert len({tuple((turn["event"], turn["version"]) for turn in name["history"]) for name in names}) == 1
    last = len(names[0]["versions"])
    hashes = [tenant.names.diff("desk", 1, last)["after"]["content_hash"] for tenant in (one, other)]
    assert hashes[0] == hashes[1]
    claims = [[len(one["items"]) for one in tenant.records.trainings("desk")] for tenant in (one, other)]
    assert claims[0] == claims[1]
    taken = [number for training in other.records.trainings("desk") for number in training["items"]]
    assert len(taken) == len(set(taken))


EVERYWHERE = [
    "before gather",
    "after gather",
    "before learn",
    "step 1 of",
    "5 items in",
    "after learn",
    "before bring",
    "after bring",
    "before gate",
    "after gate",
    "before canary",
    "after canary",
]


@pytest.mark.long
def test_killed_at_every_stage_it_comes_to_the_same_end(loop_address: str, file: Path, tmp_path: Path) -> None:
    calm, killed, policy = Tenant(loop_address, "tml-calm"), Tenant(loop_address, "tml-killed"), load(file)
    for tenant, ends in ((calm, [[], []]), (killed, [["before open", "after open"], EVERYWHERE])):
        folder = tmp_path / tenant.key
        lives(tenant, file, folder, ends[0])
        tenant.correct("desk", QUESTIONS)
        lives(tenant, file, folder, ends[1])
    same_end(calm, killed)
    assert policy.name == "desk"
