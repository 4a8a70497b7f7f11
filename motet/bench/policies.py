"""The three policies over the same work: who finishes when, how long a lane waits, and whether priorities are kept.

Every run lives the life of an RL experiment on random prompts: sample a batch, learn from it, publish, again. Lengths
are fixed, so that all runs have the same work; run 0 is opened first. For the shares three runs of priorities 1, 1 and
2 keep more training in the queues than a pass holds, for so many seconds.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from motet.bench.common import show
from motet.engine.core.engine import Engine
from motet.engine.core.requests import CreateRun, DropRun, ForwardBackward, OptimStep, Publish, Sample
from motet.engine.opening import open_engine
from motet.engine.settings import EngineSettings
from motet.engine.types import (
    AdamW,
    AdapterShape,
    Claim,
    Datum,
    Dtype,
    IntArray,
    Loss,
    PolicyName,
    SampleResult,
    SamplingParams,
)

COLUMNS = (
    "policy",
    "one alone s",
    "first s",
    "mean s",
    "last s",
    "run 0 / alone",
    "sampling waits ms",
    "training waits ms",
    "shares 1:1:2",
)
PRIORITIES = (1.0, 1.0, 2.0)


@dataclass(frozen=True)
class Life:
    """The work of one run."""

    steps: int
    prompts: int = 8
    samples: int = 8
    prompt_tokens: int = 64
    new_tokens: int = 24


@dataclass(frozen=True)
class Crowd:
    """Runs that lived at the same time."""

    ends: list[float]  # seconds from the common start, in the order of opening
    waits: dict[str, float]  # the longest of each lane, seconds


@contextmanager
def _engine(settings: EngineSettings) -> Iterator[Engine]:
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        engine = open_engine(replace(settings, data_dir=Path(folder)))
        try:
            yield engine
        finally:
            engine.close()


def _create(engine: Engine, run: str, priority: float = 1.0) -> None:
    engine.submit(CreateRun(run, AdapterShape(rank=8), 1, Claim(priority))).result()


def _prompt(engine: Engine, seed: int, length: int) -> IntArray:
    return np.random.default_rng(seed).integers(0, engine.info.vocabulary, length).astype(np.int32)


def _learned_from(prompt: IntArray, result: SampleResult) -> tuple[Datum, ...]:
    """Its samples as datums of importance sampling, better and worse in turn."""
    data = []
    for index, sequence in enumerate(result.sequences):
        whole = np.concatenate([prompt, sequence.tokens])
        logprobs, advantages = (np.zeros(len(whole) - 1, np.float32) for _ in range(2))
        logprobs[len(prompt) - 1 :], advantages[len(prompt) - 1 :] = sequence.logprobs, (-1) ** index
        data.append(Datum(whole[:-1], whole[1:], logprobs=logprobs, advantages=advantages))
    return tuple(data)


def _live(engine: Engine, run: str, life: Life) -> float:
    """All steps of a run; the time at its end."""
    version = None
    for step in range(life.steps):
        params = SamplingParams(max_tokens=life.new_tokens, seed=step, stop_tokens=())
        prompts = [_prompt(engine, 100 * step + i, life.prompt_tokens) for i in range(life.prompts)]
        drawn = [engine.submit(Sample(version, prompt, params, life.samples)) for prompt in prompts]
        data = [_learned_from(prompt, future.result()) for prompt, future in zip(prompts, drawn, strict=True)]
        trained = engine.submit(ForwardBackward(run, sum(data, ()), Loss("importance_sampling")))
        engine.submit(OptimStep(run, AdamW(learning_rate=1e-4)))
        version = f"{run}/{step}"
        engine.submit(Publish(run, version)).result()
        trained.result()
    return time.perf_counter()


def crowd_of(settings: EngineSettings, runs: int, life: Life) -> Crowd:
    """Let so many runs live at the same time."""
    with _engine(settings) as engine:
        names = [f"run-{index}" for index in range(runs)]
        for name in names:
            _create(engine, name)
        _create(engine, "warm")
        _live(engine, "warm", replace(life, steps=1))
        engine.submit(DropRun("warm")).result()
        began = time.perf_counter()
        with ThreadPoolExecutor(runs) as pool:
            ends = list(pool.map(lambda name: _live(engine, name, life) - began, names))
        stats = engine.stats()
    return Crowd(ends, {lane: stats[f"{lane}_longest_wait_seconds"] for lane in ("sampling", "training")})


def shares_of(settings: EngineSettings, seconds: float) -> list[float]:
    """Parts of device time that runs of PRIORITIES have had after so many seconds, all with more to train than fits."""
    with _engine(replace(settings, pass_rows=512)) as engine:
        data = tuple(Datum(tokens, tokens) for tokens in (_prompt(engine, i, 128) for i in range(4)))
        names = [f"run-{index}" for index in range(len(PRIORITIES))]
        for name, priority in zip(names, PRIORITIES, strict=True):
            _create(engine, name, priority)
        before, began = engine.stats(), time.perf_counter()
        open_: dict[Future[Any], str] = {}
        for name in names * 8:
            open_[engine.submit(ForwardBackward(name, data, Loss()))] = name
        while time.perf_counter() - began < seconds:
            done, _ = wait(open_, return_when=FIRST_COMPLETED)
            for name in [open_.pop(future) for future in done]:
                open_[engine.submit(ForwardBackward(name, data, Loss()))] = name
        after = engine.stats()
    had = [after[key] - before[key] for key in (f"training_seconds:{name}" for name in names)]
    return [part / sum(had) for part in had]


def bench_policies(model: str, dtype: Dtype, runs: int, steps: int, seconds: float, json_file: Path | None) -> None:
    """One row a policy."""
    settings, life = EngineSettings(model, dtype=dtype), Life(steps)
    rows: list[list[object]] = []
    for policy in get_args(PolicyName):
        chosen = replace(settings, policy=policy)
        alone, crowd = crowd_of(chosen, 1, life).ends[0], crowd_of(chosen, runs, life)
        shares = ":".join(f"{share / 0.25:.2f}" for share in shares_of(chosen, seconds))
        row: list[object] = [
            policy,
            alone,
            min(crowd.ends),
            sum(crowd.ends) / runs,
            max(crowd.ends),
            crowd.ends[0] / alone,
        ]
        rows.append([*row, *(1e3 * crowd.waits[lane] for lane in ("sampling", "training")), shares])
    show(f"policies, {model}, {runs} runs of {steps} steps", COLUMNS, rows, json_file)
