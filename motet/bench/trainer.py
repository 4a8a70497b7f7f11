"""Training: one run of 8 n tokens, eight mixed of n each, eight one after another; and the memory it takes."""

from __future__ import annotations

import multiprocessing
import resource
from pathlib import Path

import numpy as np
import torch

from motet.bench.common import peak_flops, product_flops, random_adapter, show, timed
from motet.engine.models.base import BaseModel, open_base_model
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


def _lora_peak(model: str, dtype: Dtype, tokens: int, length: int, rank: int) -> None:
    """One step of a LoRA run, in a process of its own."""
    base = open_base_model(model, dtype, "cpu")
    Trainer(base.decoder).run(_parts(base, 1, tokens, length, rank, seed=0), backward=True)


def _full_peak(model: str, dtype: Dtype, tokens: int, length: int, rank: int) -> None:
    """One step of full fine-tuning with `transformers` and AdamW in float32 masters, in a process of its own."""
    from transformers import AutoModelForCausalLM

    from motet.engine.models.base import resolve

    network = AutoModelForCausalLM.from_pretrained(resolve(model), dtype=torch.float32)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-5)
    batch = torch.randint(0, network.config.vocab_size, (tokens // length, length))
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
        network(input_ids=batch, labels=batch).loss.backward()
    optimizer.step()


def bench_memory(model: str, dtype: Dtype, tokens: int, length: int, rank: int, json_file: Path | None) -> None:
    """Peak resident memory of one training step: a LoRA run here, and full fine-tuning of the same base model."""
    rows: list[list[object]] = []
    for name, work in (("LoRA run", _lora_peak), ("full fine-tuning", _full_peak)):
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        process = context.Process(target=_report_peak, args=(work, (model, dtype, tokens, length, rank), queue))
        process.start()
        rows.append([name, tokens, queue.get() / 2**30])
        process.join()
    show(f"peak memory of a step, {model}, {dtype}", ("work", "tokens", "GiB resident"), rows, json_file)


def _report_peak(work, arguments, queue) -> None:  # type: ignore[no-untyped-def]
    work(*arguments)
    queue.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
