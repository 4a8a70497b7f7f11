"""The promises on the real default model; minutes each. `make test-long` runs them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from motet.engine.core.engine import Engine
from motet.engine.core.requests import CreateRun, ForwardBackward, OptimStep, Publish, Sample
from motet.engine.models.default import DEFAULT_MODEL
from motet.engine.settings import GIB, EngineSettings
from motet.engine.types import AdamW, AdapterShape, Datum, Loss, SamplingParams
from tests.engine.engines import OpenEngine, opener
from tests.engine.test_isolation import Story, crowd, live, same

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.fixture
def default_engine(tmp_path: Path) -> OpenEngine:
    """open(**settings) -> a context with an engine on the default base model."""
    return opener(EngineSettings(model=DEFAULT_MODEL), tmp_path)


def long_life(engine: Engine, name: str, steps: int) -> Story:
    """Prompts past 1,024 tokens that share their beginning, from the second step on found in the cache or evicted."""
    story = Story([], [], [], {})
    engine.submit(CreateRun(name, AdapterShape(rank=16), 5)).result()
    shared = np.random.default_rng(1).integers(0, 40000, 1030)
    version = None
    for step in range(steps):
        data = []
        for i in range(2):
            asked = np.concatenate([shared, np.random.default_rng(10 + i).integers(0, 40000, 40 + i)])
            params = SamplingParams(max_tokens=12, seed=step)
            result = engine.submit(Sample(version, asked, params, num_samples=2)).result()
            for sequence in result.sequences:
                story.tokens.append(sequence.tokens.tolist())
                story.sampled.append(sequence.logprobs)
                whole = np.concatenate([asked, sequence.tokens])
                data.append(Datum(whole[:-1], whole[1:]))
        trained = engine.submit(ForwardBackward(name, tuple(data), Loss())).result()
        story.trained += trained.logprobs
        if step == 0:  # sampler and trainer agree on what was sampled from the fresh adapter
            for sampled, logprobs in zip(story.sampled, trained.logprobs, strict=True):
                np.testing.assert_array_equal(logprobs[-len(sampled) :], sampled)
        engine.submit(OptimStep(name, AdamW(learning_rate=1e-4))).result()
        version = f"{name}/{step}"
        engine.submit(Publish(name, version)).result()
    return story


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_long_contexts_alone_and_among_neighbours(default_engine: OpenEngine, tmp_path: Path, dtype: str) -> None:
    with default_engine(dtype=dtype) as engine:
        alone = long_life(engine, "alone", steps=3)
    with default_engine(dtype=dtype, kv_cache_bytes=GIB // 6, host_bytes=GIB // 4) as engine:
        with crowd(engine, 8, tmp_path):
            among = long_life(engine, "among", steps=3)
        assert engine.stats()["swaps_in"] > 0
    same(alone, among)


def test_short_lives_of_the_default_model(default_engine: OpenEngine, tmp_path: Path) -> None:
    """The story of `make test`, on the real weights, with its final weights and moments."""
    shape = AdapterShape(rank=16, unembed=True)
    with default_engine(dtype="bfloat16") as engine:
        alone = live(engine, "alone", tmp_path / "alone", shape, seed=7, steps=2)
    with default_engine(dtype="bfloat16", host_bytes=GIB // 2) as engine, crowd(engine, 6, tmp_path):
        among = live(engine, "among", tmp_path / "among", shape, seed=7, steps=2)
    same(alone, among)


def short_life(engine: Engine, name: str, seed: int, step: int) -> list[np.ndarray]:
    """One step of a run, and a sample from what came of it."""
    tokens = np.random.default_rng(seed).integers(0, 40000, 25)
    trained = engine.submit(ForwardBackward(name, (Datum(tokens[:-1], tokens[1:]),), Loss())).result()
    engine.submit(OptimStep(name, AdamW(learning_rate=1e-3))).result()
    engine.submit(Publish(name, f"{name}/{step}")).result()
    params = SamplingParams(max_tokens=4, seed=seed)
    result = engine.submit(Sample(f"{name}/{step}", tokens[:10], params)).result()
    return [trained.logprobs[0], result.sequences[0].tokens, result.sequences[0].logprobs]


def test_256_runs_under_4_gib(default_engine: OpenEngine) -> None:
    """Each takes two steps and samples, in random order; a run in eight is compared with itself alone."""
    order = [(run, step) for step in range(2) for run in random.Random(step).sample(range(256), 256)]
    among: dict[int, list[np.ndarray]] = {run: [] for run in range(256)}
    with default_engine(host_bytes=4 * GIB) as engine:
        for run in range(256):
            engine.submit(CreateRun(f"run-{run}", AdapterShape(rank=16), run)).result()
        for run, step in order:
            among[run] += short_life(engine, f"run-{run}", run, step)
        stats = engine.stats()
        print({key: stats[key] for key in ("adapter_bytes", "swaps_in", "swaps_out")})
    assert stats["swaps_in"] > 200 and stats["adapter_bytes"] <= 4.2 * GIB
    with default_engine() as engine:
        for run in range(0, 256, 8):
            engine.submit(CreateRun(f"run-{run}", AdapterShape(rank=16), run)).result()
            alone = [part for step in range(2) for part in short_life(engine, f"run-{run}", run, step)]
            for got, expected in zip(among[run], alone, strict=True):
                np.testing.assert_array_equal(got, expected)
