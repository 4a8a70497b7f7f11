"""A person is deleted: what learned from them steps back, and is made again from what is left; on a real server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from motet.lab.loop.lineage import Training, held_out_of, learned_by, rebuild_of
from motet.lab.loop.settings import load
from tests.loop.conftest import Tenant
from tests.loop.driver import play, rounds

FILE = """
name = "desk"
when = {items = 4, least = 2, minutes = 0, held_out = 0.0}
learn = {corrections = "sft", epochs = 1, batch = 4, rank = 4}
replay = {share = 0.0}
canary = {share = 0.0}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "desk.toml").write_text(FILE)
    return tmp_path / "desk.toml"


def turn(tenant: Tenant, file: Path, key: str = "") -> list[str]:
    folder = file.parent / (key or tenant.key)
    return asyncio.run(play(rounds(load(file), tenant.address, tenant.key, folder)))


def test_an_adapter_is_made_again_without_them(loop_address: str, file: Path) -> None:
    """Two rounds; the first learned from u-2 as well. Both versions go, the third knows u-1 and u-3 alone."""
    tenant = Tenant(loop_address, "tml-deleting")
    turn(tenant, file)
    mine = tenant.correct("desk", ["A?", "B?"], user="u-1")
    tenant.correct("desk", ["C?", "D?"], user="u-2")
    assert turn(tenant, file) == ["gather", "learn", "bring", "gate"]
    theirs = tenant.correct("desk", ["E?", "F?", "G?", "H?"], user="u-3")
    assert turn(tenant, file) == ["gather", "learn", "bring", "gate"]
    assert tenant.names.show("desk")["serving"] == 3
    tenant.records.forget("u-2")
    assert turn(tenant, file) == ["gather", "learn", "bring", "gate"]
    name = tenant.names.show("desk")
    promoted = [one["version"] for one in name["history"] if one["event"] == "promote"]
    assert promoted == [1, 2, 3, 1, 4]  # what has nothing of theirs serves while it is made again
    last = tenant.records.trainings("desk")[-1]
    assert last["items"] == [] and last["replayed"] == sorted([*mine, *theirs])
    assert last["parent"] == name["versions"][0]["path"]
    assert last["recipe"]["rebuild"] == [name["versions"][1]["path"], name["versions"][2]["path"]]
    assert turn(tenant, file) == []


def test_what_is_left_teaches_what_it_would_have_taught(loop_address: str, file: Path) -> None:
    """A rebuilt version equals that of somebody for whom the deleted person was never there, but for the seed."""
    with_them, without = Tenant(loop_address, "tml-with"), Tenant(loop_address, "tml-without")
    for tenant in (with_them, without):
        turn(tenant, file)
        tenant.correct("desk", ["A?", "B?"], user="u-1")
    with_them.correct("desk", ["C?", "D?"], user="u-2")
    turn(with_them, file)
    with_them.records.forget("u-2")
    assert turn(with_them, file)[:2] == ["gather", "learn"]
    without.records.close(without.records.claim("desk-1", "desk", None, [])["training"], None)  # a round's number less
    assert turn(without, file, "again")[:2] == ["gather", "learn"]
    hashes = [one.names.diff("desk", 1, last)["after"]["content_hash"] for one, last in ((with_them, 3), (without, 2))]
    assert hashes[0] == hashes[1]


def test_nobody_is_left(loop_address: str, file: Path) -> None:
    """Then the version before serves, and nothing is learned."""
    tenant = Tenant(loop_address, "tml-alone")
    turn(tenant, file)
    tenant.correct("desk", ["A?", "B?", "C?", "D?"], user="u-1")
    turn(tenant, file)
    assert tenant.names.show("desk")["serving"] == 2
    tenant.records.forget("u-1")
    assert turn(tenant, file) == ["gather", "learn"]
    assert tenant.names.show("desk")["serving"] == 1
    assert tenant.records.trainings("desk")[-1]["state"] == "abandoned"
    assert turn(tenant, file) == []


def training(number: int, parent: str | None, items: list[int], lost: int = 0) -> Training:
    path = f"v{number}"
    return Training(path, f"desk-{number}", "done", parent, path, number, items, [], [], lost, {})


def test_the_plan_by_hand() -> None:
    """v3 on v2 on v1: whose item is lost decides from where it begins again."""
    chain = [training(1, None, [1, 2]), training(2, "v1", [3]), training(3, "v2", [4, 5])]
    assert rebuild_of(chain, "v3") is None
    middle = rebuild_of([chain[0], replace(chain[1], items=[], lost=1), chain[2]], "v3")
    assert middle is not None and (middle.parent, middle.left, middle.paths) == ("v1", [4, 5], ["v2", "v3"])
    first = rebuild_of([replace(chain[0], items=[2], lost=1), *chain[1:]], "v3")
    assert first is not None and (first.parent, first.left) == (None, [2, 3, 4, 5])
    assert rebuild_of([chain[0], replace(chain[1], items=[], lost=1), chain[2]], "v1") is None


def test_what_was_refused_is_neither_replayed_nor_measured_with() -> None:
    """v3 was refused, v4 made again from v1 in the place of v2."""
    one, two, refused = training(1, None, [1]), training(2, "v1", [2]), training(3, "v2", [3])
    again = replace(training(4, "v1", [2]), recipe={"rebuild": ["v2"]})
    all_ = [replace(own, held_out=[10 * place]) for place, own in enumerate((one, two, refused, again), 1)]
    assert learned_by(all_, "v2") == [1, 2] and held_out_of(all_, "v2") == [10, 20]
    assert learned_by(all_, "v4") == [1, 2] and held_out_of(all_, "v4") == [10, 20, 40]
    assert learned_by(all_, None) == [] and held_out_of(all_, "unknown") == []
