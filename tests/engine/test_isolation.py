"""Promise 1: what a run samples and learns is the same, bit for bit, alone and beside 31 neighbours."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from motet.engine.core.engine import Engine
from motet.engine.core.requests import (
    CreateRun,
    DropRun,
    ForwardBackward,
    OptimStep,
    Publish,
    Sample,
    SaveRun,
)
from motet.engine.types import AdamW, AdapterShape, Datum, Loss, SampleResult, SamplingParams
from motet.errors import MotetError
from tests.engine.engines import OpenEngine

NEIGHBOURS = 31


@dataclass
class Story:
    """Everything that a run ever saw."""

    tokens: list[list[int]]
    sampled: list[np.ndarray]
    trained: list[np.ndarray]
    tensors: dict[str, torch.Tensor]


def prompt(seed: int, length: int) -> np.ndarray:
    shared = np.random.default_rng(0).integers(0, 250, 40)  # all prompts begin alike: prefixes are there to be reused
    return np.concatenate([shared, np.random.default_rng(seed).integers(0, 250, length)])


def data_of(asked: np.ndarray, result: SampleResult, advantages: np.ndarray) -> list[Datum]:
    data = []
    for sequence, advantage in zip(result.sequences, advantages, strict=True):
        whole = np.concatenate([asked, sequence.tokens])
        logprobs = np.zeros(len(whole) - 1, np.float32)
        logprobs[len(asked) - 1 :] = sequence.logprobs
        weight = (np.arange(len(whole) - 1) >= len(asked) - 1) * np.float32(advantage)
        data.append(Datum(whole[:-1], whole[1:], logprobs=logprobs, advantages=weight.astype(np.float32)))
    return data


def live(engine: Engine, name: str, folder: Path, shape: AdapterShape, seed: int, steps: int) -> Story:
    """A run's life: sample, learn, publish, again; at the end its weights, moments and a pending gradient."""
    story = Story([], [], [], {})
    engine.submit(CreateRun(name, shape, seed)).result()
    version = None
    for step in range(steps):
        asked = [prompt(seed * 100 + step * 10 + i, 5 + 7 * i) for i in range(3)]
        params = SamplingParams(max_tokens=12, seed=seed + step, temperature=1.0)
        futures = [engine.submit(Sample(version, tokens, params, num_samples=3)) for tokens in asked]
        data = []
        for tokens, future in zip(asked, futures, strict=True):
            result = future.result()
            story.tokens += [sequence.tokens.tolist() for sequence in result.sequences]
            story.sampled += [sequence.logprobs for sequence in result.sequences]
            data += data_of(tokens, result, np.array([1.0, -0.5, 0.25]))
        trained = engine.submit(ForwardBackward(name, tuple(data), Loss("ppo")))
        if step < steps - 1:
            engine.submit(OptimStep(name, AdamW(learning_rate=0.02, grad_clip_norm=1.0)))
        version = f"{name}/{step}"
        engine.submit(Publish(name, version)).result()
        story.trained += trained.result().logprobs
    engine.submit(SaveRun(name, str(folder))).result()
    story.tensors = load_file(folder / "run.safetensors")
    return story


def bother(engine: Engine, index: int, folder: Path, stop: threading.Event) -> None:
    """A neighbour: joins, trains, samples, publishes, errs and leaves at random."""
    rng = random.Random(index)
    noise = np.random.default_rng(index).integers(0, 250, rng.randint(1, 90))
    life = 0
    while not stop.is_set():
        life += 1
        name = f"neighbour-{index}-{life}"
        shape = AdapterShape(rank=rng.choice([1, 3, 8, 16]), alpha=rng.choice([8, 64]), unembed=rng.random() < 0.5)
        try:
            live(engine, name, folder / name, shape, seed=1000 + index, steps=rng.choice([1, 2]))
            engine.submit(ForwardBackward(name, (Datum(noise, noise[:-1]),), Loss())).result()
        except MotetError:
            engine.submit(ForwardBackward(name, (Datum(noise, noise),), Loss("cross_entropy"), rng.random() < 0.5))
            abandoned = engine.submit(Sample(None, noise, SamplingParams(max_tokens=60), num_samples=2))
            engine.cancel(abandoned)
            engine.submit(DropRun(name))


@contextmanager
def crowd(engine: Engine, count: int, folder: Path) -> Iterator[None]:
    """So many neighbours, for as long as the context is open. What one of them should not have met is raised."""
    stop = threading.Event()
    with ThreadPoolExecutor(count) as pool:
        neighbours = [pool.submit(bother, engine, index, folder, stop) for index in range(count)]
        try:
            yield
        finally:
            stop.set()
    for neighbour in neighbours:
        neighbour.result()


def same(alone: Story, among: Story) -> None:
    assert among.tokens == alone.tokens
    for kind in ("sampled", "trained"):
        for got, expected in zip(getattr(among, kind), getattr(alone, kind), strict=True):
            np.testing.assert_array_equal(got, expected)
    assert among.tensors.keys() == alone.tensors.keys()
    for key, expected in alone.tensors.items():
        assert torch.equal(among.tensors[key], expected), key


@pytest.mark.parametrize(
    ("dtype", "policy"),
    [("float32", "fair"), ("bfloat16", "fair"), ("float32", "first-come")],
)
def test_alone_and_among_neighbours(engine_on: OpenEngine, tmp_path: Path, dtype: str, policy: str) -> None:
    shape = AdapterShape(rank=8, unembed=True)
    with engine_on(dtype=dtype) as engine:
        alone = live(engine, "alone", tmp_path / "alone", shape, seed=7, steps=4)
    small = {"kv_cache_bytes": 2 * 1024**2, "host_bytes": 4 * 1024**2}
    with engine_on(dtype=dtype, policy=policy, longest_turn_wait=0.5, **small) as engine:
        with crowd(engine, NEIGHBOURS, tmp_path):
            among = live(engine, "among", tmp_path / "among", shape, seed=7, steps=4)
        stats = engine.stats()
    assert len(alone.tokens) == 36 and len(alone.tensors) == 4
    same(alone, among)
    assert stats["swaps_in"] > 0 and stats["swaps_out"] > 0


def test_step_zero_ratio_is_one(engine_on: OpenEngine, tmp_path: Path) -> None:
    """Sampler and trainer agree on what was sampled, to the last bit."""
    with engine_on() as engine:
        engine.submit(CreateRun("run", AdapterShape(rank=4), 3)).result()
        asked = prompt(1, 9)
        result = engine.submit(Sample(None, asked, SamplingParams(max_tokens=40, seed=1), num_samples=4)).result()
        data = tuple(data_of(asked, result, np.ones(4)))
        trained = engine.submit(ForwardBackward("run", data, Loss("importance_sampling"), backward=False)).result()
    for sequence, logprobs in zip(result.sequences, trained.logprobs, strict=True):
        np.testing.assert_array_equal(logprobs[len(asked) - 1 :], sequence.logprobs)
    assert trained.metrics["mismatch:max"] == 0.0
