"""Training: one run of 8 n tokens, eight mixed of n each, eight one after another; and the memory it takes."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from motet.bench.common import peak_flops, product_flops, random_adapter, show, timed
from motet.engine.models.base import BaseModel, open_base_model, resolve
from motet.engine.trainer.packing import cut_pieces
from motet.engine.trainer.trainer import PassPart, Trainer
from motet.engine.types import AdapterShape, Datum, Dtype, Loss

RUNS = 8
COLUMNS = ("work", "tokens", "seconds", "tokens a second", "share of peak")


def _data(tokens: int, length: int, seed: int, vocabulary: int) -> tuple[Datum, ...]:
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, vocabulary, (tokens // length, length + 1))
    return tuple(Datum(row[:-1], row[1:]) for row in drawn)


def _parts(base: BaseModel, runs: int, tokens: int, length: int, rank: int, seed: int) -> list[PassPart]:
    """The pieces of `runs` runs with `tokens` tokens each, ready for a pass."""
    config, parts = base.decoder.config, []
    for run in range(seed, seed + runs):
        adapter = random_adapter(config, AdapterShape(rank=rank), base.decoder.dtype, run, train=True)
        pieces = cut_pieces(_data(tokens, length, run, config.vocabulary), max_rows=runs * tokens)
        parts += [PassPart(piece, adapter.tensors, Loss()) for piece in pieces]
    return parts


def bench_trainer(model: str, dtype: Dtype, tokens: int, length: int, rank: int, json_file: Path | None) -> None:
    """Print one row for each way of doing the same work."""
    base = open_base_model(model, dtype, "cpu")
    trainer, total = Trainer(base.decoder), RUNS * tokens
    single = _parts(base, 1, total, length, rank, seed=0)
    mixed = _parts(base, RUNS, tokens, length, rank, seed=100)
    works = {
        f"one run of {total}": lambda: trainer.run(single, backward=True),
        f"{RUNS} mixed of {tokens}": lambda: trainer.run(mixed, backward=True),
        f"{RUNS} one after another": lambda: [trainer.run([part], backward=True) for part in mixed],
    }
    # Forward, input gradient: twice the products, the head in both.
    flops = 2 * product_flops(base.decoder.config, total, total)
    peak = peak_flops(base.decoder.dtype, 1024)
    rows: list[list[object]] = []
    for name, work in works.items():
        seconds = timed(work, tries=3).median
        rows.append([name, total, seconds, total / seconds, flops / seconds / peak])
    show(f"trainer, {model}, {base.decoder.dtype}, rank {rank}, medians of 3", COLUMNS, rows, json_file)


@dataclass(frozen=True)
class Step:
    """One training step, whose memory is measured."""

    model: str
    dtype: Dtype
    tokens: int
    length: int  # of a datum
    rank: int


def lora_step(step: Step) -> None:
    """A LoRA run's forward and backward, as the engine does them."""
    base = open_base_model(step.model, step.dtype, "cpu")
    Trainer(base.decoder).run(_parts(base, 1, step.tokens, step.length, step.rank, seed=0), backward=True)


def full_step(step: Step) -> None:
    """Full fine-tuning with `transformers`, AdamW on float32 master weights."""
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(resolve(step.model), dtype=torch.float32)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-5)
    batch = torch.randint(0, network.config.vocab_size, (step.tokens // step.length, step.length))
    with torch.autocast("cpu", torch.bfloat16, enabled=step.dtype == "bfloat16"):
        network(input_ids=batch, labels=batch).loss.backward()
    optimizer.step()


def peak_bytes(work: Callable[[Step], None], step: Step) -> int:
    """Peak resident memory of a process that does this and nothing else. BrokenProcessPool where it was killed."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_work_and_measure, work, step).result()


def _work_and_measure(work: Callable[[Step], None], step: Step) -> int:
    work(step)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def bench_memory(model: str, dtype: Dtype, tokens: int, length: int, rank: int, json_file: Path | None) -> None:
    """Peak resident memory of one training step: a LoRA run here, and full fine-tuning of the same base model."""
    step = Step(model, dtype, tokens, length, rank)
    works = {"LoRA run": lora_step, "full fine-tuning": full_step}
    rows = [[name, tokens, peak_bytes(work, step) / 2**30] for name, work in works.items()]
    show(f"peak memory of a step, {model}, {dtype}", ("work", "tokens", "GiB resident"), rows, json_file)
