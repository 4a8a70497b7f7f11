"""Decode: milliseconds a step and tokens a second, for the base model, one adapter and eight mixed.

Steps are those of the sampler's own runner, over sequences that already stand at the asked context; the keys are
random, which costs the same as real ones. Every sequence has blocks of its own: nothing is shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from motet.bench.common import peak_flops, product_flops, random_adapter, show, timed
from motet.engine.adapters.run import Version
from motet.engine.models.base import BaseModel, open_base_model
from motet.engine.ops.logprobs import draw
from motet.engine.sampler.blocks import BLOCK
from motet.engine.sampler.prompt import PromptReport
from motet.engine.sampler.runner import Runner
from motet.engine.sampler.sequence import Chunk, Group, Sequence
from motet.engine.types import AdapterShape, Dtype, PromptQuery, SamplingParams

COLUMNS = ("sequences", "adapters", "context", "ms a step", "tokens a second", "adapters' ms", "share of peak")


@dataclass(frozen=True)
class Point:
    """What is measured: so many sequences, spread evenly over so many adapters (0: the base model alone)."""

    sequences: int
    adapters: int


def _versions(base: BaseModel, count: int, rank: int, folder: Path) -> list[Version]:
    shape, decoder = AdapterShape(rank=rank), base.decoder
    versions = []
    for seed in range(count):
        adapter = random_adapter(decoder.config, shape, decoder.dtype, seed, train=False)
        file = folder / f"bench-{seed}"
        versions.append(Version(f"v{seed}", 1, adapter.layout, adapter.tensors.flat, file))
    return versions


def _chunks(point: Point, context: int, vocabulary: int, versions: list[Version]) -> list[Chunk]:
    """Each sequence's next token, at the end of the context."""
    blocks, chunks = -(-context // BLOCK), []
    rng = np.random.default_rng(0)
    for i in range(point.sequences):
        version = versions[i % point.adapters] if point.adapters else None
        prompt = rng.integers(0, vocabulary, context)
        report = PromptReport(PromptQuery(), prompt, 1.0, 0, vocabulary)
        group = Group(prompt, SamplingParams(), 0, 1, 1, frozenset(), (), version, report, 0, lambda group: None)
        sequence = Sequence(group, 0, prompt.tolist(), context - 1, list(range(i * blocks, (i + 1) * blocks)))
        chunks.append(Chunk(sequence, context - 1, 1))
    return chunks


def _step(runner: Runner, chunks: list[Chunk]) -> None:
    rows = runner.run(chunks)
    logits = runner.logits(rows, rows.bounds[1:] - 1)
    count = len(chunks)
    draw(
        logits,
        torch.ones(count),
        torch.full((count,), -1, dtype=torch.int64),
        torch.ones(count),
        torch.rand(count, dtype=torch.float64),
    )


def bench_sampler(
    model: str, dtype: Dtype, context: int, rank: int, sequences: list[int], json_file: Path | None
) -> None:
    """Print one row for each number of sequences and of adapters."""
    base = open_base_model(model, dtype, "cpu")
    decoder = base.decoder
    runner = Runner(decoder, max(sequences) * -(-context // BLOCK))
    versions = _versions(base, 8, rank, Path("."))
    rows: list[list[object]] = []
    for count in sequences:
        peak = peak_flops(decoder.dtype, count)
        flops = product_flops(decoder.config, count, count)
        without = 0.0
        for adapters in (0, 1, 8):
            chunks = _chunks(Point(count, adapters), context, decoder.config.vocabulary, versions)
            seconds = timed(partial(_step, runner, chunks), tries=9).median
            without = seconds if adapters == 0 else without
            extra = 1e3 * (seconds - without) if adapters else 0.0
            rows.append([count, adapters, context, 1e3 * seconds, count / seconds, extra, flops / seconds / peak])
    show(f"sampler, {model}, {decoder.dtype}, rank {rank}, medians of 9", COLUMNS, rows, json_file)
