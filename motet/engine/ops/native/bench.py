"""What the kernels reach on SmolLM2-135M's shapes, as shares of the inner loop's own measured rate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from motet.engine.ops import attention, logprobs
from motet.engine.ops.linear import BaseWeight, linear, linear_backward
from motet.engine.ops.lora import AdapterTensors, LoraBatch, SitePlan
from motet.engine.ops.native.library import library

LAYERS = 30
SHAPES = {"qkv": (576, (576, 192, 192)), "o": (576, (576,)), "gate_up": (576, (1536, 1536)), "down": (1536, (576,))}
HEAD = (576, (49152,))
ADAPTERS, RANK = 8, 16


def best(work: Callable[[], object], seconds: float = 0.3) -> float:
    """Seconds of the fastest of many runs."""
    work()
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < until:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


@dataclass
class Site:
    """Enough copies of one projection that they do not stay in the caches."""

    weights: list[BaseWeight]
    loras: list[LoraBatch]
    x: Tensor
    dy: Tensor

    def forward(self, adapters: bool) -> float:
        pairs = list(zip(self.weights, self.loras, strict=True))
        return best(lambda: [linear(self.x, w, lora if adapters else None, 0) for w, lora in pairs]) / len(pairs)

    def backward(self, adapters: bool) -> float:
        w, lora = self.weights[0], self.loras[0] if adapters else None
        return best(lambda: linear_backward(self.x, self.dy, w, lora, 0))


def _adapter(d_in: int, splits: tuple[int, ...], dtype: torch.dtype) -> AdapterTensors:
    a_size = d_in * len(splits) * RANK
    size = a_size + RANK * sum(splits)
    flat = torch.randn(size).to(dtype)
    return AdapterTensors(flat, (SitePlan(0, a_size, d_in, splits),), RANK, 2.0, torch.zeros(size))


def _site(d_in: int, splits: tuple[int, ...], dtype: torch.dtype, rows: int, copies: int) -> Site:
    weights = [BaseWeight.pack(torch.randn(sum(splits), d_in).to(dtype), splits) for _ in range(copies)]
    bounds = tuple(np.linspace(0, rows, min(ADAPTERS, rows) + 1).astype(int).tolist())
    loras = [LoraBatch(bounds, tuple(_adapter(d_in, splits, dtype) for _ in bounds[1:])) for _ in range(copies)]
    return Site(weights, loras, torch.randn(rows, d_in).to(dtype), torch.randn(rows, sum(splits)).to(dtype))


def products(dtype: torch.dtype, peak: float) -> None:
    """Forward at decode and training sizes; a step is all four projections of all layers."""
    for rows in (1, 4, 8, 16, 64, 128, 512, 2048):
        step, mixed, line = 0.0, 0.0, ""
        for name, (d_in, splits) in SHAPES.items():
            site = _site(d_in, splits, dtype, rows, 12 if rows <= 128 else 2)
            base = site.forward(False)
            step, mixed = step + LAYERS * base, mixed + LAYERS * site.forward(True)
            line += f"{name} {_share(rows, d_in, splits, base, peak):4.0f}%  "
        if rows <= 128:
            head = _site(*HEAD, dtype, rows, 1).forward(False)
            line += f"head {_share(rows, *HEAD, head, peak):4.0f}%  "
        print(f"  {rows:5} rows  {line}step {step * 1e3:7.1f} ms, {ADAPTERS} adapters +{(mixed - step) * 1e3:6.1f}")


def _share(rows: int, d_in: int, splits: tuple[int, ...], seconds: float, peak: float) -> float:
    return 100 * 2e-9 * rows * d_in * sum(splits) / seconds / peak


def backwards(dtype: torch.dtype, peak: float) -> None:
    """dx alone, and with the adapters' gradients."""
    for rows in (128, 512, 2048):
        step, mixed, line = 0.0, 0.0, ""
        for name, (d_in, splits) in SHAPES.items():
            site = _site(d_in, splits, dtype, rows, 1)
            base = site.backward(False)
            step, mixed = step + LAYERS * base, mixed + LAYERS * site.backward(True)
            line += f"{name} {_share(rows, d_in, splits, base, peak):4.0f}%  "
        print(
            f"  {rows:5} rows back  {line}pass {step * 1e3:7.1f} ms, {ADAPTERS} adapters +{(mixed - step) * 1e3:6.1f}"
        )


def decode_attention(dtype: torch.dtype, keys: int, sequences: int = 64) -> None:
    """One token of each sequence over its own keys, all layers."""
    blocks = -(-keys // attention.BLOCK)
    pool = attention.KVPool(4, sequences * blocks, 3, 64, dtype, "cpu")
    tables = np.arange(sequences * blocks, dtype=np.int32).reshape(sequences, blocks)
    rows = attention.PagedRows(np.arange(sequences + 1, dtype=np.int32), tables, np.full(sequences, keys - 1, np.int32))
    q = torch.randn(sequences, 9, 64).to(dtype)
    seconds = best(lambda: [attention.paged_attention(q, pool, layer, rows, 0.125) for layer in range(4)]) / 4
    print(f"  attention of {sequences} sequences over {keys} keys, {LAYERS} layers: {seconds * LAYERS * 1e3:.1f} ms")


def packed(dtype: torch.dtype) -> None:
    """A training pack: five prompts of 190 tokens with eight answers of 25 each, forward and backward."""
    key_rows: list[np.ndarray] = []
    for prompt in range(5):
        start = prompt * 390
        shared = np.arange(start, start + 190)
        key_rows += [shared, *(np.r_[shared, start + 190 + 25 * i : start + 215 + 25 * i] for i in range(8))]
    counts = np.array([190, *[25] * 8] * 5, np.int32)
    bounds = np.cumsum([0, *map(len, key_rows)]).astype(np.int32)
    groups = np.arange(0, 46, 9, dtype=np.int32)
    sequences = attention.PackedSequences(np.concatenate(key_rows).astype(np.int32), bounds, counts, groups)
    q, k, v = (torch.randn(1950, heads, 64).to(dtype).requires_grad_() for heads in (9, 3, 3))
    forward = best(lambda: attention.packed_attention(q, k, v, sequences, 0.125))
    out = attention.packed_attention(q, k, v, sequences, 0.125)
    grad = torch.randn(out.shape).to(dtype)
    backward = best(lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True))
    print(f"  packed attention, 1950 rows, {LAYERS} layers: {forward * 3e4:.0f} ms, back {backward * 3e4:.0f} ms")


def drawing() -> None:
    """A token of each of 64 rows of 49152 logits."""
    logits, uniform = torch.randn(64, 49152) * 3, torch.rand(64)
    for name, k, p in (("whole", -1, 1.0), ("top_k 50", 50, 1.0), ("top_p 0.9", -1, 0.9)):
        draw = partial(logprobs.draw, logits, torch.ones(64), torch.full((64,), k), torch.full((64,), p), uniform)
        print(f"  draw 64 of 49152, {name}: {best(draw) * 1e3:.2f} ms")


def main() -> None:
    """Print everything. Nothing else should run on the machine meanwhile."""
    kernels = library()
    assert kernels is not None
    threads = torch.get_num_threads()
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):
        peak = kernels.rate(kernels.kind(dtype)) * threads
        print(f"{dtype}, {threads} threads; the inner loop alone reaches {peak:.0f} GFLOP/s, and of that")
        products(dtype, peak)
        backwards(dtype, peak)
        for keys in (64, 256, 1024):
            decode_attention(dtype, keys)
        packed(dtype)
    drawing()
