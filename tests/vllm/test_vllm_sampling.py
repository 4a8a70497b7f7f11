"""The sampling contract under vLLM, against our own sampler on the same weights.

Measured (2026-12-01, CPU, float32): of eight samples under each shape log-probabilities
differed by 4.5e-6 at most; the tests allow 1e-4.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from motet.engine.core.engine import Engine
from motet.engine.core.requests import CreateRun, DropVersion, ForwardBackward, OptimStep, Publish, Sample
from motet.engine.types import (
    AdamW,
    AdapterShape,
    Datum,
    GivenTokens,
    Loss,
    PromptQuery,
    SamplePart,
    SampleResult,
    SamplingParams,
)
from motet.errors import BadRequest, NotFound

PROMPT = np.random.default_rng(3).integers(0, 250, 50)
TOLERANCE = 1e-4
FREE = SamplingParams(max_tokens=24, seed=5, stop_tokens=())
SHAPES = {
    "whole": AdapterShape(rank=8, unembed=True),
    "attention": AdapterShape(rank=4, mlp=False),
    "mlp": AdapterShape(rank=32, alpha=16, attention=False),
}


def draw(engine: Engine, version: str | None, params: SamplingParams = FREE, **asked: object) -> SampleResult:
    return engine.submit(Sample(version, PROMPT, params, **asked)).result()  # type: ignore[arg-type]


def learn(engine: Engine, run: str, steps: int = 1, rate: float = 3e-3) -> None:
    data = (Datum(PROMPT[:-1], PROMPT[1:], weights=np.ones(len(PROMPT) - 1, np.float32)),)
    for _ in range(steps):
        engine.submit(ForwardBackward(run, data, Loss("cross_entropy")))
        engine.submit(OptimStep(run, AdamW(learning_rate=rate))).result()


def scored(engine: Engine, version: str | None, prompt: np.ndarray) -> np.ndarray:
    request = Sample(version, prompt, SamplingParams(max_tokens=1, seed=1), query=PromptQuery(logprobs=True))
    told = engine.submit(request).result().prompt.logprobs
    assert told is not None
    return told


def whole(result: SampleResult, index: int = 0) -> np.ndarray:
    return np.concatenate([PROMPT, result.sequences[index].tokens])


@pytest.mark.parametrize("shape", SHAPES)
def test_a_published_version_gives_the_log_probabilities_of_our_own_sampler(
    own: Engine, vllm: Engine, shape: str
) -> None:
    name = f"same-{shape}"
    for engine in (own, vllm):
        engine.submit(CreateRun(name, SHAPES[shape], seed=1)).result()
        learn(engine, name, steps=3)
        engine.submit(Publish(name, f"{name}-1")).result()
    drawn = draw(vllm, f"{name}-1")
    ours, theirs, base = (scored(*at, whole(drawn)) for at in ((own, f"{name}-1"), (vllm, f"{name}-1"), (own, None)))
    np.testing.assert_allclose(theirs[1:], ours[1:], atol=TOLERANCE)
    np.testing.assert_allclose(drawn.sequences[0].logprobs, ours[len(PROMPT) :], atol=TOLERANCE)
    assert np.abs(ours - base)[1:].max() > 0.1, "the adapter does nothing: the test would prove nothing"
    assert drawn.version_number == 1


def test_a_seed_gives_the_same_again_and_samples_differ(vllm: Engine) -> None:
    first, again = draw(vllm, None, num_samples=4), draw(vllm, None, num_samples=4)
    other = draw(vllm, None, SamplingParams(max_tokens=24, seed=6, stop_tokens=()), num_samples=4)
    tokens = [[one.tokens.tolist() for one in each.sequences] for each in (first, again, other)]
    assert tokens[0] == tokens[1]
    assert len({tuple(one) for one in [*tokens[0], *tokens[2]]}) == 8


def test_greedy_is_the_greedy_of_our_own(own: Engine, vllm: Engine) -> None:
    params = SamplingParams(max_tokens=24, temperature=0, stop_tokens=())
    ours, theirs = draw(own, None, params).sequences[0], draw(vllm, None, params).sequences[0]
    assert ours.tokens.tolist() == theirs.tokens.tolist()
    np.testing.assert_allclose(theirs.logprobs, ours.logprobs, atol=TOLERANCE)


def test_log_probabilities_are_tempered(own: Engine, vllm: Engine) -> None:
    """The first drawn token's place, at temperature 2, computed from the likeliest of all the vocabulary."""
    params = SamplingParams(max_tokens=1, temperature=2.0, seed=3, stop_tokens=())
    got = draw(vllm, None, params).sequences[0]
    cold = draw(own, None, SamplingParams(max_tokens=1, seed=3), top_sample_logprobs=320).sequences[0].top
    assert cold is not None
    half = dict(zip(cold.tokens[0].tolist(), cold.logprobs[0] / 2, strict=True))
    truth = half[int(got.tokens[0])] - np.log(np.exp(list(half.values())).sum())
    assert got.logprobs[0] == pytest.approx(truth, abs=TOLERANCE)


def test_it_ends_at_stop_tokens_and_strings_which_are_included(own: Engine, vllm: Engine) -> None:
    tokens = draw(vllm, None).sequences[0].tokens.tolist()
    by_token = draw(vllm, None, SamplingParams(max_tokens=24, seed=5, stop_tokens=(tokens[6],))).sequences[0]
    assert by_token.stop_reason == "stop" and by_token.tokens.tolist() == tokens[: tokens.index(tokens[6]) + 1]
    greedy = SamplingParams(max_tokens=24, temperature=0, stop_tokens=())
    letter = next(t for t in draw(own, None, greedy).sequences[0].tokens.tolist() if t < 94)  # "!" is the first
    stop = SamplingParams(max_tokens=24, temperature=0, stop_tokens=(), stop_strings=(chr(letter + 33),))
    ours, theirs = draw(own, None, stop).sequences[0], draw(vllm, None, stop).sequences[0]
    assert theirs.stop_reason == ours.stop_reason == "stop"
    assert theirs.tokens.tolist() == ours.tokens.tolist() and len(theirs.tokens) < 24
    assert draw(vllm, None).sequences[0].stop_reason == "length"


def test_a_prompt_is_told_of_as_by_our_own(own: Engine, vllm: Engine) -> None:
    for query in (PromptQuery(logprobs=True, top=3), PromptQuery(logprobs=True, last=7), PromptQuery(top=400)):
        ours, theirs = (draw(engine, None, query=query).prompt for engine in (own, vllm))
        assert (ours.top is None) == (theirs.top is None) and (ours.logprobs is None) == (theirs.logprobs is None)
        if ours.logprobs is not None and theirs.logprobs is not None:
            np.testing.assert_allclose(theirs.logprobs, ours.logprobs, atol=TOLERANCE)
        if ours.top is not None and theirs.top is not None:
            np.testing.assert_allclose(theirs.top.logprobs, ours.top.logprobs, atol=TOLERANCE)


def test_the_likeliest_of_each_drawn_place_are_told(own: Engine, vllm: Engine) -> None:
    greedy = SamplingParams(max_tokens=6, temperature=0, stop_tokens=())
    ours, theirs = (draw(e, None, greedy, top_sample_logprobs=3).sequences[0].top for e in (own, vllm))
    assert ours is not None and theirs is not None
    np.testing.assert_array_equal(theirs.tokens, ours.tokens)
    np.testing.assert_allclose(theirs.logprobs, ours.logprobs, atol=TOLERANCE)


def test_tokens_are_heard_of_as_they_are_drawn(vllm: Engine) -> None:
    heard: list[SamplePart] = []
    result = vllm.submit(Sample(None, PROMPT, FREE, num_samples=2), on_part=heard.append).result()
    for index, sequence in enumerate(result.sequences):
        assert [part.token for part in heard if part.index == index] == sequence.tokens.tolist()


def test_what_vllm_cannot_do_is_refused_and_says_what_can(vllm: Engine) -> None:
    given = GivenTokens(np.array([1]), np.array([2]))
    for query in (PromptQuery(given=given), PromptQuery(draws=2)):
        with pytest.raises(BadRequest, match='sampler = "local"'):
            draw(vllm, None, query=query)
    with pytest.raises(BadRequest, match="at least 0.01"):
        draw(vllm, None, SamplingParams(temperature=0.001))
    with pytest.raises(NotFound, match="no version"):
        draw(vllm, "nobody")


def test_a_request_that_is_taken_back_leaves_nothing(vllm: Engine) -> None:
    future = vllm.submit(Sample(None, PROMPT, SamplingParams(max_tokens=400, stop_tokens=()), num_samples=8))
    draw(vllm, None, SamplingParams(max_tokens=2, seed=1))
    vllm.cancel(future)
    draw(vllm, None)
    assert future.cancelled() and vllm.stats()["sequences"] == 0


def test_a_dropped_version_is_unloaded_once_it_is_idle(vllm: Engine) -> None:
    vllm.submit(CreateRun("drop", AdapterShape(rank=4), seed=1)).result()
    learn(vllm, "drop")
    vllm.submit(Publish("drop", "drop-1")).result()
    long = vllm.submit(Sample("drop-1", PROMPT, SamplingParams(max_tokens=150, seed=1, stop_tokens=())))
    draw(vllm, "drop-1", SamplingParams(max_tokens=1, seed=1))
    before = vllm.stats()
    vllm.submit(DropVersion("drop-1")).result()
    assert len(long.result().sequences[0].tokens) == 150
    draw(vllm, None, SamplingParams(max_tokens=1, seed=1))
    after = vllm.stats()
    assert after["vllm_unloads"] == before["vllm_unloads"] + 1
    assert after["vllm_adapters"] == before["vllm_adapters"] - 1
    with pytest.raises(NotFound):
        draw(vllm, "drop-1")


def test_more_prompts_at_once_than_one_step_holds(vllm: Engine) -> None:
    """vLLM 0.32 on a CPU dies of a seeded sample whose prompt is cut: here none is."""
    prompts = np.random.default_rng(8).integers(0, 250, (12, 450))
    params = SamplingParams(max_tokens=3, seed=1, stop_tokens=())
    drawn = [vllm.submit(Sample(None, prompt, params)) for prompt in prompts]
    assert all(len(one.result(timeout=120).sequences[0].tokens) == 3 for one in drawn)


def test_our_lanes_still_choose_their_threads(vllm: Engine) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    assert torch.get_num_threads() == before + 1
    torch.set_num_threads(before)
