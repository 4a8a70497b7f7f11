"""What each kind of feedback becomes, token by token; and that learning it moves answers that way, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinker

from motet.chat.template import Chat
from motet.lab.algorithms.examples import Completion, Judged, Pair
from motet.lab.algorithms.judging import scored
from motet.lab.envs.protocol import Cue, Group
from motet.lab.envs.rollout import TinkerPolicy
from motet.lab.experiments.scoring import SamplingScorer
from motet.lab.loop.items import Item, read_items
from motet.lab.loop.lessons import Shown, lesson_of, portions, way_of
from motet.lab.loop.settings import Learn, load
from tests.loop.conftest import Tenant
from tests.loop.driver import play, rounds
from tests.tiny import make_tokenizer

ASKED = [{"role": "user", "content": "Hm?"}]


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Chat:
    return Chat(make_tokenizer(tmp_path_factory.mktemp("tokenizer")))


def told(**said: Any) -> dict[str, Any]:
    """An item as the server tells it, of an answer with two choices."""
    choices = [{"index": n, "text": text, "tool_calls": [], "tokens": [5, 6 + n], "logprobs": [-1.0, -2.0]}
               for n, text in enumerate(("No", "Yes"))]  # fmt: skip
    record = {"kind": "chat", "request": {"messages": ASKED}, "prompt_tokens": [1, 2, 3], "choices": choices}
    nothing = dict.fromkeys(("score", "thumbs", "preferred", "correction", "event", "outcome"))
    about = {"number": 4, "time": "2026-12-01T10:00:00+00:00", "source": "u", "version": 2, "choice": 0}
    return {**nothing, **about, "answer": record, **said}


def read(**said: Any) -> Item:
    (item,) = read_items([told(**said)])
    return item


def test_an_item_teaches_the_most_that_it_says() -> None:
    assert read(thumbs="down", correction="Maybe").kind == "correction"
    assert read(thumbs="down", preferred={"choice": 1}).preferred == "Yes"
    assert read(preferred={"text": "Well"}).preferred == "Well"
    assert [read(thumbs=word).is_good(0.0) for word in ("up", "down")] == [True, False]
    assert [read(event=word).is_good(0.0) for word in ("accepted", "retried", "escalated")] == [True, False, False]
    assert read(score=0.4).is_good(0.3) and not read(score=0.4, thumbs="up").is_good(0.5)
    assert read(thumbs="up", outcome={"score": -1.0}).score == -1.0  # how it ended says more
    assert read_items([told(comment="hello")]) == []  # nothing that can be learned
    calls = {"content": "Look:", "tool_calls": [{"function": {"name": "find", "arguments": '{"a": 1}'}}]}
    expected = 'Look:\n<tool_call>\n{"name": "find", "arguments": {"a": 1}}\n</tool_call>'
    assert read(correction=calls).correction == expected


def test_what_algorithms_take(chat: Chat) -> None:
    learn = Learn()
    better = Completion.of([1, 2, 3], chat.answer("Maybe"))
    answered = Completion.of([1, 2, 3], [5, 6])
    assert lesson_of(read(correction="Maybe"), "sft", learn, chat) == better
    assert lesson_of(read(correction="Maybe"), "dpo", learn, chat) == Pair(better, answered)
    assert lesson_of(read(thumbs="down"), "kto", learn, chat) == Judged(answered, False)
    shown = lesson_of(read(correction="Maybe"), "self_distillation", learn, chat)
    assert isinstance(shown, Shown) and shown.prompt == [1, 2, 3]
    assert "Maybe" in str(chat.tokenizer.decode(shown.hint))
    group = lesson_of(read(score=0.5), "reinforce", learn, chat)
    assert isinstance(group, Group) and group.rewards == [0.5]
    assert (group.trajectories[0].tokens, group.trajectories[0].logprobs) == ([1, 2, 3, 5, 6], [0, 0, 0, -1.0, -2.0])


def test_a_conversation_of_elsewhere_has_no_tokens(chat: Chat) -> None:
    past = told(thumbs="up")
    past["answer"] |= {"kind": "past", "prompt_tokens": []}
    past["answer"]["choices"][0] |= {"tokens": [], "logprobs": []}
    (item,) = read_items([past])
    lived = Judged(Completion.of(chat.prompt(ASKED), chat.answer("No")), True)
    assert lesson_of(item, "kto", Learn(), chat) == lived
    assert way_of(item, Learn(verdicts="reinforce")) is None and way_of(item, Learn(verdicts="off")) is None


def test_every_item_once_an_epoch_in_steps_of_one_kind() -> None:
    items = read_items([told(correction="x") | {"number": n} for n in range(1, 8)])
    items += read_items([told(thumbs="up") | {"number": n} for n in range(8, 11)])
    steps = portions(items, Learn(epochs=2, batch=3, corrections="sft"), seed=1)
    assert len(steps) == 2 * (3 + 1) and max(len(one.items) for one in steps) == 3
    assert all(len({item.kind for item in one.items}) == 1 for one in steps)
    for epoch in (steps[:4], steps[4:]):
        assert sorted(item.number for one in epoch for item in one.items) == list(range(1, 11))
    assert steps == portions(items, Learn(epochs=2, batch=3, corrections="sft"), seed=1)


FILE = """
name = "desk"
when = {items = 4, minutes = 0, held_out = 0.0}
canary = {share = 0.0}
[learn]
epochs = 6
batch = 4
rank = 8
learning_rate = 2e-3
"""


def correct(tenant: Tenant) -> None:
    tenant.correct("desk", ["A?", "B?", "C?", "D?"], better="Yes.")


def prefer(tenant: Tenant) -> None:
    for question in ("A?", "B?", "C?", "D?"):
        tenant.say(tenant.ask("desk", question), preferred={"text": "Yes."})


def praise(tenant: Tenant) -> None:
    """Two answers that were drawn are good, two are bad."""
    for place, question in enumerate(("A?", "B?", "C?", "D?")):
        tenant.say(tenant.ask("desk", question), thumbs=("up", "down")[place % 2])


WAYS: dict[str, tuple[str, Callable[[Tenant], None]]] = {
    "sft": ('corrections = "sft"', correct),
    "sft-anchored": ('corrections = "sft"\n[anchor]\nprompts = "prompts.jsonl"\nmax_tokens = 4', correct),
    "corrected-dpo": ('corrections = "dpo"', correct),
    "dpo": ('pairs = "dpo"', prefer),
    "kto": ('verdicts = "kto"', praise),
    "reinforce": ('verdicts = "reinforce"', praise),
    "practice": (
        'corrections = "sft"\n[tasks]\nsteps = 1\nproblems = 1\nsamples = 2\nenvironment = {name = "word_problems", '
        "turns = 1, turn_tokens = 4, examples = 0}",
        correct,
    ),
}


@dataclass(frozen=True)
class Versions:
    """The first and the last of a name, and how to read what they read."""

    first: tinker.SamplingClient
    last: tinker.SamplingClient
    chat: Chat

    @classmethod
    def of(cls, tenant: Tenant) -> Versions:
        service = tinker.ServiceClient(base_url=tenant.address, api_key=tenant.key)
        paths = [one["path"] for one in tenant.names.show("desk")["versions"]]
        first, last = (service.create_sampling_client(model_path=one) for one in (paths[0], paths[-1]))
        run = service.create_lora_training_client(tenant.model, rank=1)
        return cls(first, last, Chat(run.get_tokenizer()))


async def gained(versions: Versions, items: list[Item]) -> list[float]:
    """Of each item, how much likelier what is wanted has become: the better answer, or the one that was judged."""
    found = []
    for item in items:
        wanted = item.written if item.better is None else versions.chat.answer(item.better)
        tokens = [*item.read, *wanted]
        both = [await SamplingScorer(one).logprobs(tokens) for one in (versions.first, versions.last)]
        before, after = (sum(one[len(item.read) :]) for one in both)
        sign = -1.0 if item.better is None and not item.is_good(0.0) else 1.0
        found.append(sign * (after - before))
    return found


async def apart(client: tinker.SamplingClient, chat: Chat, items: list[Item]) -> float:
    """Nats a token between a version and itself with the correction in its context, on 32 draws for each question."""
    policy, scorer, found = TinkerPolicy(client, chat.tokenizer, 1.0), SamplingScorer(client), []
    for item in items:
        shown = lesson_of(item, "self_distillation", Learn(), chat)
        assert isinstance(shown, Shown)
        for written in await policy.write(shown.prompt, Cue([], 6), 32, seed=9):
            given = await scored(scorer, [*shown.prompt, *written.tokens], len(shown.prompt), shown.hint)
            found.append(float(np.mean(written.logprobs - given[len(shown.prompt) :])))
    return float(np.mean(found))


def test_self_distillation_brings_a_version_to_what_it_would_say_with_the_correction(
    loop_address: str, tmp_path: Path
) -> None:
    tenant, file = Tenant(loop_address, "tml-distilling"), tmp_path / "desk.toml"
    file.write_text(FILE.replace("epochs = 6", "epochs = 15") + "max_tokens = 6")
    own = rounds(load(file), tenant.address, tenant.key, tmp_path)
    asyncio.run(play(own))
    correct(tenant)
    items = read_items(list(tenant.records.feedback(name="desk", answers=True)))
    assert asyncio.run(play(own)) == ["gather", "learn", "bring", "gate"]
    versions = Versions.of(tenant)
    before, after = (asyncio.run(apart(one, versions.chat, items)) for one in (versions.first, versions.last))
    assert after < 0.8 * before, (before, after)


@pytest.mark.parametrize("way", WAYS)
def test_learning_moves_answers_that_way(loop_address: str, tmp_path: Path, way: str) -> None:
    more, speak = WAYS[way]
    tenant, file = Tenant(loop_address, f"tml-{way}"), tmp_path / "desk.toml"
    file.write_text(FILE + more)
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "Hello?"}\n{"prompt": "Who?"}\n')
    own = rounds(load(file), tenant.address, tenant.key, tmp_path)
    asyncio.run(play(own))
    speak(tenant)
    items = read_items(list(tenant.records.feedback(name="desk", answers=True)))
    assert asyncio.run(play(own)) == ["gather", "learn", "bring", "gate"]
    gains = asyncio.run(gained(Versions.of(tenant), items))
    assert sum(gains) > 0.1, gains
