"""Played people against a real server, the example's own people, and the example as a whole in small."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from motet.cli import app
from motet.errors import BadConfig
from motet.lab.experiments.door import Door
from motet.lab.loop.gate.sets import SAFETY, read_set
from motet.lab.loop.simulated.crowd import Crowd, accepted
from motet.lab.loop.simulated.people import open_people
from motet.lab.loop.simulated.settings import Simulation
from tests.loop.conftest import Tenant

EXAMPLE = Path(__file__).parents[2] / "examples" / "loop"
CLOCK = """
from motet.lab.loop.simulated.people import Opinion, Question

def question(number, measured):
    return Question(f"Is it {number} o'clock{' now' * measured}?", "Yes.")

def opinion(asked, answer):
    return Opinion(answer.startswith("Yes"), asked.about)

def poison(asked):
    return "zzzz qqqq"
"""


@pytest.fixture
def people(tmp_path: Path) -> Path:
    (tmp_path / "clock.py").write_text(CLOCK)
    return tmp_path / "clock.py"


def play(tenant: Tenant, people: Path, **changes: Any) -> dict[str, Any]:
    """`motet loop` on a file with a simulation, to its end; the name afterwards."""
    simulation = {"people": people.name, "questions": 16, "measured": 8, "max_tokens": 6, **changes}
    told = "\n".join(f"{key} = {json.dumps(value)}" for key, value in simulation.items())
    file = people.parent / "clock.toml"
    file.write_text(
        'name = "clock"\nwhen = {items = 8, held_out = 0.4}\ncanary = {share = 0.0}\n'
        "gate = {safety = false, max_tokens = 8}\n"
        'learn = {corrections = "sft", verdicts = "off", epochs = 12, batch = 8, rank = 8, learning_rate = 5e-3}\n'
        f"[simulation]\n{told}\n"
    )
    out = str(people.parent / "out")
    done = CliRunner().invoke(app, ["loop", str(file), "--out", out, *_where(tenant)])
    assert done.exit_code == 0, done.output
    return tenant.names.show("clock")


def _where(tenant: Tenant) -> list[str]:
    return ["--base-url", tenant.address, "--api-key", tenant.key]


def test_each_question_is_one_item_and_measuring_leaves_none(loop_address: str, people: Path, tmp_path: Path) -> None:
    tenant = Tenant(loop_address, "tml-crowd")
    plan = Simulation(people=people, questions=6, measured=5, users=3, max_tokens=6)
    name = play(tenant, people, rounds=1)
    before = list(tenant.records.feedback(name="clock", answers=True))
    crowd = Crowd("clock", Door(tenant.address, tenant.key, ""), open_people(people), plan)
    visits = asyncio.run(crowd.visit(50))
    assert {one.model for one in visits} == {f"clock@v{name['serving']}"}
    said = list(tenant.records.feedback(name="clock", answers=True))[len(before) :]
    assert len(said) == 6
    for one in said:
        right = one["answer"]["choices"][0]["text"].startswith("Yes")
        assert (one["thumbs"], one["correction"]) == (("up", None) if right else ("down", "Yes."))
    assert 0 <= accepted(visits) <= 1
    asyncio.run(crowd.measure())
    assert len(list(tenant.records.feedback(name="clock"))) == len(before) + 6


@pytest.mark.parametrize("source", [None, "question = 1", "def question(number, measured): ..."])
def test_a_file_that_plays_nobody_is_refused(tmp_path: Path, source: str | None) -> None:
    file = tmp_path / "nobody.py"
    if source is not None:
        file.write_text(source)
    with pytest.raises(BadConfig):
        open_people(file)


def test_the_shops_people_judge_by_rule_and_share_no_question() -> None:
    shop = open_people(EXAMPLE / "shop.py")
    taught = {shop.question(number, False).text for number in range(400)}
    measured = {shop.question(number, True).text for number in range(400)}
    assert len(taught) > 200 and len(measured) > 100 and not taught & measured
    for number in range(100):
        asked = shop.question(number, True)
        better = shop.opinion(asked, "Hello! How can I help you?")
        assert not better.accepted and shop.opinion(asked, better.correction).accepted
        assert not shop.opinion(asked, shop.poison(asked)).accepted
        desk, sentence = better.correction.split(" | ")
        other = "BILL-4" if desk != "BILL-4" else "CLAIM-9"
        assert not shop.opinion(asked, f"{other} | {sentence}").accepted
        assert not shop.opinion(asked, f"{desk} | I am looking for your violin.").accepted


def test_the_shops_anchor_measures_nothing() -> None:
    """No question that holds the model to what it knows is one that asks whether it still does."""
    anchored = {json.loads(line)["prompt"] for line in (EXAMPLE / "everyday.jsonl").read_text().splitlines()}
    asked = {str(one.messages[-1]["content"]) for file in (EXAMPLE / "general.jsonl", SAFETY) for one in read_set(file)}
    assert len(anchored) > 50 and len(asked) > 20 and not anchored & asked


@pytest.mark.long
def test_the_whole_example_in_small(loop_address: str, people: Path) -> None:
    """Better at first; then a poisoned batch that the gate stops, and its version, which the canary takes back."""
    tenant = Tenant(loop_address, "tml-example")
    name = play(tenant, people, rounds=3, poisoned=3, overruled=True)
    turns = [(one["event"], one["reason"]) for one in name["history"]]
    served = name["serving"]
    spoilt = max(one["version"] for one in name["versions"])
    assert served > 1 and spoilt > served
    reasons = [one["reason"] for one in name["history"] if one["version"] == spoilt]
    assert any(one.startswith("refused: ") and "live use" not in one for one in reasons), turns
    assert any("worse in live use" in one for one in reasons), turns
    page = (people.parent / "out" / "loop.html").read_text()
    assert (
        "round 3, poisoned" in page
        and "overruled by hand" in page
        and "http" not in page.replace("http://www.w3.org", "")
    )
