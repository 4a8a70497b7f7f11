"""Environments of `verifiers` as ours, on the real package: one answer, several turns, tools; what is told without it.

The package wants much that the others do not: `make test-verifiers` runs this in a virtual environment of its own.
"""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from motet.chat.template import encode
from motet.errors import BadConfig
from motet.lab.envs.protocol import Cue, End, Environment, Tasks, Written
from motet.lab.envs.verifiers.settings import VerifiersSettings

HERE = importlib.util.find_spec("verifiers") is not None
needs_it = pytest.mark.skipif(not HERE, reason="needs verifiers: make test-verifiers")

SUMS = '''
import verifiers as vf
from datasets import Dataset


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: one
        b: the other
    """
    return a + b


def right(completion, answer) -> float:
    return float(completion[-1]["content"].strip() == answer)


class Twice(vf.MultiTurnEnv):
    """Says `again` until it has heard two turns."""

    @vf.stop
    async def heard_two(self, state) -> bool:
        return len(state["trajectory"]) >= 2

    async def env_response(self, messages, state, **kwargs):
        return [{"role": "user", "content": "again"}]


class Forgetful(Twice):
    """Shows the policy only what was said last."""

    async def get_prompt_messages(self, state):
        return (await super().get_prompt_messages(state))[-1:]


class Broken(Twice):
    async def env_response(self, messages, state, **kwargs):
        raise vf.Error("no network")


def load_environment(kind="single", rows=20, held_out=0):
    data = Dataset.from_list([{"question": f"{n} + 1 =", "answer": str(n + 1)} for n in range(rows)])
    later = Dataset.from_list([{"question": f"{n} + 1 =", "answer": str(n + 1)} for n in range(500, 500 + held_out)])
    shared = {"dataset": data, "eval_dataset": later if held_out else None, "rubric": vf.Rubric(funcs=[right])}
    if kind == "tool":
        return vf.ToolEnv(tools=[add], max_turns=5, **shared)
    kinds = {"single": vf.SingleTurnEnv, "twice": Twice, "forgetful": Forgetful, "broken": Broken}
    return kinds[kind](**shared)
'''


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VerifiersSettings:
    (tmp_path / "our_sums.py").write_text(SUMS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "our_sums", raising=False)
    return VerifiersSettings(name="verifiers", id="our-sums")


def play(env: Environment, tokenizer: PreTrainedTokenizerFast, *turns: str) -> tuple[list[str], End]:
    """What is read before each turn, and how it ends."""

    async def test() -> tuple[list[str], End]:
        cue: Cue | End = await env.start()
        read = []
        for turn in turns:
            assert isinstance(cue, Cue)
            read.append(tokenizer.decode(cue.tokens))
            tokens = encode(tokenizer, turn + "<|im_end|>")
            cue = await env.step(Written(tokens, [0.0] * len(tokens), turn + "<|im_end|>", True))
        assert isinstance(cue, End)
        return read, cue

    return asyncio.run(test())


def built(settings: VerifiersSettings, tokenizer: PreTrainedTokenizerFast, **options: str | int) -> Tasks:
    """In a thread, as the laboratory does; nobody's signals change."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with ThreadPoolExecutor() as threads:
        tasks = threads.submit(settings.model_copy(update={"options": options}).build, tokenizer, 3).result()
    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    return tasks


@needs_it
def test_one_answer_is_paid_by_its_own_rubric(settings: VerifiersSettings, chatty: PreTrainedTokenizerFast) -> None:
    tasks = built(settings, chatty)
    read, end = play(tasks.train(0), chatty, "no idea")
    number = int(read[0].split(" + 1 =")[0].split()[-1])
    assert end.reward == 0.0
    assert play(tasks.train(0), chatty, str(number + 1))[1].reward == 1.0
    again = built(settings, chatty)
    assert play(again.train(0), chatty, "x")[0] == read != play(again.train(1), chatty, "x")[0]


@needs_it
def test_what_is_measured_is_never_trained_on(settings: VerifiersSettings, chatty: PreTrainedTokenizerFast) -> None:
    for options in ({}, {"held_out": 4}):
        tasks = built(settings, chatty, **options)
        trained = {play(tasks.train(i), chatty, "x")[0][0] for i in range(40)}
        measured = {play(tasks.held_out(i), chatty, "x")[0][0] for i in range(4)}
        assert not trained & measured and len(measured) == (4 if options else 2)


@needs_it
def test_turns_follow_each_other(settings: VerifiersSettings, chatty: PreTrainedTokenizerFast) -> None:
    read, end = play(built(settings, chatty, kind="twice").train(0), chatty, "hm", "hm")
    assert "again" in read[1] and "hm" not in read[1]  # only what is new is inserted
    assert end == End(0.0, "heard_two")


@needs_it
def test_its_tools_are_shown_and_called(settings: VerifiersSettings, chatty: PreTrainedTokenizerFast) -> None:
    call = '<tool_call>{"name": "add", "arguments": {"a": 20, "b": 22}}</tool_call>'
    read, end = play(built(settings, chatty, kind="tool").train(0), chatty, call, "42")
    assert "Add two numbers" in read[0] and "42" in read[1]
    assert end.outcome and end.reward in (0.0, 1.0)


@needs_it
def test_what_cannot_be_played_is_told(settings: VerifiersSettings, chatty: PreTrainedTokenizerFast) -> None:
    with pytest.raises(BadConfig, match="rewrites its conversation"):
        play(built(settings, chatty, kind="forgetful").train(0), chatty, "a", "b")
    with pytest.raises(Exception, match="failed:.*no network|failed:.*Error"):
        play(built(settings, chatty, kind="broken").train(0), chatty, "a", "b")
    with pytest.raises(BadConfig, match="cannot load"):
        settings.model_copy(update={"id": "nothing-like-it"}).build(chatty, 0)
    with pytest.raises(BadConfig, match="cannot load"):
        built(settings, chatty, levl=3)


@pytest.mark.skipif(HERE, reason="verifiers is installed")
def test_without_the_package_it_is_told_what_to_install() -> None:
    with pytest.raises(BadConfig, match=r"pip install 'motet\[verifiers\]'"):
        assert VerifiersSettings(name="verifiers", id="x").notice is None
