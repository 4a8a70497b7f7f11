"""Publishing to vLLM takes nobody offline: 20 versions under a stream of requests, checked against our own sampler."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future

import numpy as np

from motet.engine.core.engine import Engine
from motet.engine.core.requests import CreateRun, ForwardBackward, OptimStep, Publish, Sample
from motet.engine.types import AdamW, AdapterShape, Datum, Loss, PromptQuery, SampleResult, SamplingParams

PROMPT = np.random.default_rng(4).integers(0, 250, 160)  # vLLM caches blocks of 128 tokens on a CPU
PUBLISHES = 20
TOLERANCE = 1e-4


def ask(engine: Engine, version: str, seed: int, tokens: int = 40) -> Future[SampleResult]:
    return engine.submit(Sample(version, PROMPT, SamplingParams(max_tokens=tokens, seed=seed, stop_tokens=())))


def learn_and_publish(engine: Engine, run: str, number: int) -> str:
    data = (Datum(PROMPT[:-1], PROMPT[1:], weights=np.ones(len(PROMPT) - 1, np.float32)),)
    engine.submit(ForwardBackward(run, data, Loss("cross_entropy")))
    engine.submit(OptimStep(run, AdamW(learning_rate=3e-3)))
    engine.submit(Publish(run, f"{run}-{number}")).result()
    return f"{run}-{number}"


def truth(engine: Engine, version: str, tokens: np.ndarray) -> np.ndarray:
    """What our own sampler says of the drawn tokens under that version."""
    sequence = np.concatenate([PROMPT, tokens])
    told = engine.submit(
        Sample(version, sequence, SamplingParams(max_tokens=1, seed=1), query=PromptQuery(logprobs=True))
    ).result()
    assert told.prompt.logprobs is not None
    return told.prompt.logprobs[len(PROMPT) :]


def test_twenty_publishes_fail_nobody_mix_no_versions_and_reset_no_cache(own: Engine, vllm: Engine) -> None:
    for engine in (own, vllm):
        for run in ("stream", "steady"):
            engine.submit(CreateRun(run, AdapterShape(rank=8), seed=2)).result()
            learn_and_publish(engine, run, 0)
    ask(vllm, "steady-0", seed=0, tokens=1).result()  # its prompt stands in the cache from here on
    before = vllm.stats()
    flying: deque[tuple[str, Future[SampleResult]]] = deque()
    steady: list[SampleResult] = []
    for number in range(1, PUBLISHES + 1):
        flying += [(f"stream-{number - 1}", ask(vllm, f"stream-{number - 1}", seed)) for seed in range(3)]
        learn_and_publish(own, "stream", number)
        newest = learn_and_publish(vllm, "stream", number)  # with what was asked for above on its way
        flying.append((newest, ask(vllm, newest, seed=9)))
        steady.append(ask(vllm, "steady-0", seed=number, tokens=2).result())
    apart = []
    for version, future in flying:
        drawn = future.result(timeout=120)  # none failed
        assert drawn.version_number == int(version.rpartition("-")[2]) + 1
        expected = truth(own, version, drawn.sequences[0].tokens)
        np.testing.assert_allclose(drawn.sequences[0].logprobs, expected, atol=TOLERANCE)  # of its version to the end
        neighbour = f"stream-{(int(version.rpartition('-')[2]) + 1) % (PUBLISHES + 1)}"
        apart.append(np.abs(truth(own, neighbour, drawn.sequences[0].tokens) - expected).max())
    assert min(apart) > 10 * TOLERANCE, "neighbouring versions are too alike to be told from each other"
    assert [result.prompt_cache_hit_tokens for result in steady] == [128] * PUBLISHES
    after = vllm.stats()
    assert after["vllm_prefix_hits"] - before["vllm_prefix_hits"] >= 128 * PUBLISHES


def test_an_evicted_version_is_loaded_again_when_it_is_asked_for(vllm: Engine) -> None:
    vllm.submit(CreateRun("many", AdapterShape(rank=4), seed=3)).result()
    names = [learn_and_publish(vllm, "many", number) for number in range(40)]  # vLLM keeps 32
    first = ask(vllm, names[0], seed=7).result().sequences[0]
    for name in names[1:]:
        ask(vllm, name, seed=7, tokens=1).result()
    before = vllm.stats()
    assert before["vllm_adapters"] == 32
    again = ask(vllm, names[0], seed=7).result().sequences[0]
    assert vllm.stats()["vllm_loads"] == before["vllm_loads"] + 1
    assert again.tokens.tolist() == first.tokens.tolist()
    np.testing.assert_allclose(again.logprobs, first.logprobs, atol=TOLERANCE)
