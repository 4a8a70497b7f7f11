"""One reinforcement-learning step, the whole of it: 64 samples, a gradient over them, AdamW, a new version.

The same work by the engine and, where it is asked for, by plain code over `transformers` and `peft`: `generate` for
whole groups, then forward and backward over micro-batches, with no prefix shared. Rewards are made up; the numbers of
the two differ in their draws alone.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from motet.bench.common import show
from motet.engine.core.engine import Engine
from motet.engine.core.requests import CreateRun, ForwardBackward, OptimStep, Publish, Sample
from motet.engine.models.base import resolve
from motet.engine.opening import open_engine
from motet.engine.settings import EngineSettings
from motet.engine.types import AdamW, AdapterShape, Datum, Dtype, IntArray, Loss, SampleResult, SamplingParams
from motet.errors import BadConfig

COLUMNS = ("by", "sampling, s", "training, s", "step and publish, s", "whole, s")
GROUPS, MEMBERS = 8, 8
PROMPT, SHARED, WRITTEN = 190, 150, 25  # tokens; SHARED of a prompt begin every prompt
MICRO_BATCH = 16  # sequences in one pass of the plain code
RATE = 1e-4


@dataclass(frozen=True)
class Seconds:
    """What a step took."""

    sampling: float
    training: float
    rest: float


def _prompts(vocabulary: int, seed: int) -> list[IntArray]:
    """P prompts that begin alike."""
    rng = np.random.default_rng(seed)
    shared = rng.integers(0, vocabulary, SHARED)
    return [np.concatenate([shared, rng.integers(0, vocabulary, PROMPT - SHARED)]) for _ in range(GROUPS)]


def _datum(prompt: IntArray, tokens: IntArray, logprobs: np.ndarray, advantage: float) -> Datum:
    whole = np.concatenate([prompt, tokens])
    written = np.arange(len(whole) - 1) >= len(prompt) - 1
    known = np.zeros(len(whole) - 1, np.float32)
    known[written] = logprobs
    return Datum(whole[:-1], whole[1:], logprobs=known, advantages=(written * np.float32(advantage)).astype(np.float32))


def _data(prompt: IntArray, result: SampleResult) -> list[Datum]:
    return [
        _datum(prompt, np.asarray(one.tokens), np.asarray(one.logprobs), (-1.0) ** member)
        for member, one in enumerate(result.sequences)
    ]


def _ours(engine: Engine, run: str, step: int) -> Seconds:
    """The step number `step` of a run whose version `run/step` is published."""
    began = time.perf_counter()
    prompts = _prompts(engine.info.vocabulary, step)
    params = SamplingParams(max_tokens=WRITTEN, seed=step, stop_tokens=())
    futures = [engine.submit(Sample(f"{run}/{step}", prompt, params, num_samples=MEMBERS)) for prompt in prompts]
    data = [one for prompt, future in zip(prompts, futures, strict=True) for one in _data(prompt, future.result())]
    sampled = time.perf_counter()
    engine.submit(ForwardBackward(run, tuple(data), Loss("ppo"))).result()
    trained = time.perf_counter()
    engine.submit(OptimStep(run, AdamW(learning_rate=RATE)))
    engine.submit(Publish(run, f"{run}/{step + 1}")).result()
    return Seconds(sampled - began, trained - sampled, time.perf_counter() - trained)


def _plain(model: Any, optimizer: torch.optim.Optimizer, step: int) -> Seconds:
    """The same with a PEFT model; `model` is what get_peft_model gives."""
    began = time.perf_counter()
    prompts = torch.from_numpy(np.stack(_prompts(model.config.vocab_size, step)))
    exactly = {"max_new_tokens": WRITTEN, "min_new_tokens": WRITTEN}
    with torch.no_grad():
        tokens = model.generate(
            input_ids=prompts, attention_mask=torch.ones_like(prompts), do_sample=True, top_k=0,
            num_return_sequences=MEMBERS, pad_token_id=0, **exactly,
        )  # fmt: skip
    sampled = time.perf_counter()
    advantages = torch.tensor([(-1.0) ** (row % MEMBERS) for row in range(len(tokens))])
    for rows, advantage in zip(tokens.split(MICRO_BATCH), advantages.split(MICRO_BATCH), strict=True):
        logits = model(input_ids=rows[:, :-1], logits_to_keep=WRITTEN).logits.float()
        logprobs = logits.log_softmax(-1).gather(-1, rows[:, -WRITTEN:, None])[..., 0]
        ratio = (logprobs - logprobs.detach()).exp()
        (-(ratio * advantage[:, None]).sum()).backward()
    trained = time.perf_counter()
    optimizer.step()
    optimizer.zero_grad()
    return Seconds(sampled - began, trained - sampled, time.perf_counter() - trained)


def _plain_model(folder: Path, rank: int, dtype: torch.dtype) -> Any:
    from peft import LoraConfig, get_peft_model

    base = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    return get_peft_model(base, LoraConfig(r=rank, lora_alpha=32, target_modules=targets, task_type="CAUSAL_LM"))


def _median(work: Callable[[int], Seconds], tries: int) -> Seconds:
    """The step of median length, after one that warms up."""
    work(0)
    taken = [work(step) for step in range(1, tries + 1)]
    return sorted(taken, key=lambda one: one.sampling + one.training + one.rest)[tries // 2]


def bench_step(model: str, dtype: Dtype, rank: int, tries: int, plain: bool, json_file: Path | None) -> None:
    """Print a row for the engine, and one for plain code. BadConfig: peft is not there."""
    if plain and importlib.util.find_spec("peft") is None:
        raise BadConfig("plain code needs peft: pip install peft")
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as data_dir:
        engine = open_engine(EngineSettings(model=model, dtype=dtype, data_dir=Path(data_dir)))
        try:
            engine.submit(CreateRun("bench", AdapterShape(rank=rank), seed=0)).result()
            engine.submit(Publish("bench", "bench/0")).result()
            rows.append(_row("motet", _median(lambda step: _ours(engine, "bench", step), tries)))
            chosen = getattr(torch, engine.info.dtype)
        finally:
            engine.close()
    if plain:
        theirs = _plain_model(resolve(model), rank, chosen)
        learned = [one for one in theirs.parameters() if one.requires_grad]
        optimizer = torch.optim.AdamW(learned, lr=RATE)
        rows.append(_row("transformers and peft", _median(lambda step: _plain(theirs, optimizer, step), tries)))
    show(f"RL step, {GROUPS} x {MEMBERS} samples, {model}, {chosen}, rank {rank}", COLUMNS, rows, json_file)


def _row(by: str, one: Seconds) -> list[object]:
    return [by, one.sampling, one.training, one.rest, one.sampling + one.training + one.rest]
