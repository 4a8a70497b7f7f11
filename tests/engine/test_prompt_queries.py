"""What a request is told of its prompt, against `transformers` and against itself: cached, in pieces, beside others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from motet.engine.core.engine import Engine
from motet.engine.core.requests import Sample
from motet.engine.types import GivenTokens, PromptQuery, PromptScores, SamplingParams
from motet.errors import BadRequest
from tests.tiny import VOCABULARY

LENGTH = 50
PROMPT = np.random.default_rng(3).integers(0, 250, LENGTH)


def ask(engine: Engine, query: PromptQuery, temperature: float = 1.0, seed: int = 5) -> PromptScores:
    params = SamplingParams(max_tokens=1, temperature=temperature, seed=seed)
    return engine.submit(Sample(None, PROMPT, params, query=query)).result().prompt


@pytest.fixture
def truth(tiny_model: Path) -> np.ndarray:
    """(LENGTH - 1, V): log-probabilities of what may stand at places 1, 2, ..."""
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    with torch.no_grad():
        return torch.log_softmax(model(torch.from_numpy(PROMPT)[None]).logits[0, :-1].double(), -1).numpy()


def test_every_question_is_answered_with_the_truth(engine_on: Callable, truth: np.ndarray) -> None:
    places = np.array([1, 1, 7, 30, 49])
    given = GivenTokens(places, np.array([4, 9, 4, 319, 0]))
    with engine_on() as engine:
        got = ask(engine, PromptQuery(logprobs=True, top=3, given=given, draws=4))
    assert got.logprobs is not None and got.top is not None and got.drawn is not None and got.given is not None
    assert np.isnan(got.logprobs[0]) and got.top.logprobs[0].tolist() == [-99999.0] * 3
    np.testing.assert_allclose(got.logprobs[1:], truth[np.arange(LENGTH - 1), PROMPT[1:]], atol=2e-4)
    np.testing.assert_allclose(got.given, truth[places - 1, given.tokens], atol=2e-4)
    np.testing.assert_allclose(got.top.logprobs[1:], -np.sort(-truth, axis=1)[:, :3], atol=2e-4)
    assert got.drawn.tokens.shape == (LENGTH - 1, 4)
    expected = np.take_along_axis(truth, got.drawn.tokens.astype(int), 1)
    np.testing.assert_allclose(got.drawn.logprobs, expected, atol=2e-4)


def test_only_what_is_asked_is_answered(engine_on: Callable) -> None:
    with engine_on() as engine:
        nothing, top = ask(engine, PromptQuery()), ask(engine, PromptQuery(top=2))
        wide = ask(engine, PromptQuery(top=VOCABULARY + 9))
    assert nothing == PromptScores()
    assert top.logprobs is None and top.top is not None and top.top.tokens.shape == (LENGTH, 2)
    assert wide.top is not None and wide.top.tokens.shape == (LENGTH, VOCABULARY)


@pytest.mark.parametrize("last", [1, 2, 17, LENGTH - 1])
def test_the_last_few_come_from_a_cached_prefix_with_the_same_bits(engine_on: Callable, last: int) -> None:
    with engine_on() as engine:
        whole = ask(engine, PromptQuery(logprobs=True, top=2))
        ask(engine, PromptQuery())  # its blocks stand in the cache now
        before = engine.stats()["prompt_tokens"]
        few = ask(engine, PromptQuery(logprobs=True, top=2, last=last))
        computed = engine.stats()["prompt_tokens"] - before
    assert few.logprobs is not None and whole.logprobs is not None and few.top is not None and whole.top is not None
    assert np.isnan(few.logprobs[:-last]).all()
    np.testing.assert_array_equal(few.logprobs[-last:], whole.logprobs[-last:])
    np.testing.assert_array_equal(few.top.tokens[-last:], whole.top.tokens[-last:])
    assert (few.top.logprobs[:-last] == -99999.0).all()
    assert last <= computed < last + 16


def test_draws_follow_the_tempered_distribution_and_the_seed(engine_on: Callable, truth: np.ndarray) -> None:
    query = PromptQuery(draws=256)
    with engine_on() as engine:
        first, again = ask(engine, query, 0.5), ask(engine, query, 0.5)
        other, greedy = ask(engine, query, 0.5, seed=6), ask(engine, PromptQuery(draws=2), 0.0)
    assert first.drawn and again.drawn and other.drawn and greedy.drawn
    np.testing.assert_array_equal(first.drawn.tokens, again.drawn.tokens)
    assert (first.drawn.tokens != other.drawn.tokens).any()
    np.testing.assert_array_equal(greedy.drawn.tokens, truth.argmax(1)[:, None].repeat(2, 1))
    tempered = np.exp(2 * truth)
    tempered /= tempered.sum(1, keepdims=True)
    likeliest = truth.argmax(1)
    share = (first.drawn.tokens == likeliest[:, None]).mean()
    expected = tempered[np.arange(LENGTH - 1), likeliest]
    spread = np.sqrt((expected * (1 - expected)).sum() / 256) / (LENGTH - 1)
    assert abs(share - expected.mean()) < 5 * spread


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (PromptQuery(logprobs=True, last=LENGTH), f"choose 1 to {LENGTH - 1}"),
        (PromptQuery(logprobs=True, last=0), "choose 1 to"),
        (PromptQuery(given=GivenTokens(np.array([1]), np.array([VOCABULARY]))), "vocabulary"),
        (PromptQuery(given=GivenTokens(np.array([1]), np.array([-2]))), "vocabulary"),
        (PromptQuery(given=GivenTokens(np.array([LENGTH]), np.array([1]))), "places"),
        (PromptQuery(draws=-1), "drawn"),
    ],
)
def test_what_cannot_be_told_is_refused(engine_on: Callable, query: PromptQuery, told: str) -> None:
    with engine_on() as engine, pytest.raises(BadRequest, match=told):
        ask(engine, query)
