"""reasoning-gym's datasets as environments, on the real package; what is told without it."""

from __future__ import annotations

import asyncio
import importlib.util
import re

import pytest
from transformers import PreTrainedTokenizerFast

from motet.chat.template import encode
from motet.errors import BadConfig
from motet.lab.envs.protocol import Cue, End, Environment, Written
from motet.lab.envs.reasoning_gym import ReasoningGymSettings

HERE = importlib.util.find_spec("reasoning_gym") is not None
SETTINGS = ReasoningGymSettings(
    name="reasoning_gym", dataset="chain_sum", options={"min_terms": 2, "max_terms": 2, "max_digits": 1}
)


def play(env: Environment, tokenizer: PreTrainedTokenizerFast, answer: str) -> tuple[str, Cue | End]:
    """The prompt's text, and what an answer of (a template of) its sum leads to."""

    async def test() -> tuple[str, Cue | End]:
        cue = await env.start()
        text = tokenizer.decode(cue.tokens)
        terms = re.search(r"(\d+) ([+-]) (\d+)", text)
        assert terms is not None, text
        total = int(terms[1]) + int(terms[3]) if terms[2] == "+" else int(terms[1]) - int(terms[3])
        said = answer.format(total) + "<|im_end|>"
        tokens = encode(tokenizer, said)
        return text, await env.step(Written(tokens, [0.0] * len(tokens), said, True))

    return asyncio.run(test())


@pytest.mark.skipif(not HERE, reason="needs motet[reasoning-gym]")
def test_the_packages_own_checker_pays(chatty: PreTrainedTokenizerFast) -> None:
    tasks = SETTINGS.build(chatty, seed=3)
    assert play(tasks.train(5), chatty, "<answer>{}</answer>")[1] == End(1.0, "right")
    for trick in ("{}", "<answer>{}</answer><answer>7</answer>", "<answer></answer>", "<answer>1{}9</answer>"):
        end = play(tasks.train(5), chatty, trick)[1]
        assert isinstance(end, End) and end.reward < 1.0, trick
    prompts = [play(env, chatty, "")[0] for env in (tasks.train(5), tasks.train(5), tasks.train(6), tasks.held_out(5))]
    assert prompts[0] == prompts[1] and len(set(prompts)) == 3


@pytest.mark.skipif(not HERE, reason="needs motet[reasoning-gym]")
@pytest.mark.parametrize(
    "changes", [{"dataset": "nothing_like_it"}, {"options": {"levl": 3}}, {"options": {"min_terms": -1}}]
)
def test_what_it_does_not_have_is_told(chatty: PreTrainedTokenizerFast, changes: dict[str, object]) -> None:
    with pytest.raises(BadConfig, match="no such dataset or option"):
        SETTINGS.model_copy(update=changes).build(chatty, 0)


@pytest.mark.skipif(HERE, reason="reasoning-gym is installed")
def test_without_the_package_it_is_told_what_to_install(chatty: PreTrainedTokenizerFast) -> None:
    with pytest.raises(BadConfig, match=r"pip install 'motet\[reasoning-gym\]'"):
        SETTINGS.build(chatty, 0)
