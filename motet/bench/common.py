"""What every benchmark needs: a warm base model, adapters on it, clocks, and the machine's own peak."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from motet.engine.adapters.layout import Layout, fresh_weights, make_layout, site_sizes
from motet.engine.models.config import ModelConfig
from motet.engine.ops.linear import BaseWeight, linear
from motet.engine.ops.lora import AdapterTensors
from motet.engine.types import AdapterShape


@dataclass(frozen=True)
class Timing:
    """Seconds of several equal tries."""

    tries: list[float]

    @property
    def best(self) -> float:
        return min(self.tries)

    @property
    def median(self) -> float:
        return median(self.tries)


def timed(work: Callable[[], object], tries: int = 5, warm: int = 1) -> Timing:
    """Time a piece of work after a warm-up."""
    for _ in range(warm):
        work()
    seconds = []
    for _ in range(tries):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return Timing(seconds)


def product_flops(config: ModelConfig, rows: int, head_rows: int) -> float:
    """Floating-point operations of the base model's products for `rows` tokens, `head_rows` of them with logits."""
    sizes = site_sizes(config)
    layers = sum(2.0 * d_in * sum(splits) for d_in, splits in sizes[:-1])
    d_in, splits = sizes[-1]
    return rows * layers + head_rows * 2.0 * d_in * sum(splits)


def peak_flops(dtype: torch.dtype, rows: int) -> float:
    """The machine's matrix-multiply rate for this type and number of rows: the best of torch's and ours."""
    width = 1024
    x, w = torch.randn(rows, width).to(dtype), torch.randn(4 * width, width).to(dtype)
    packed = BaseWeight.pack(w, (4 * width,))
    flops = 2.0 * rows * width * 4 * width
    with torch.no_grad():
        theirs = timed(lambda: torch.nn.functional.linear(x, w), tries=7).best
        ours = timed(lambda: linear(x, packed, None, 0), tries=7).best
    return flops / min(theirs, ours)


@dataclass(frozen=True, eq=False)
class RandomAdapter:
    """An adapter with both matrices away from zero, as a trained one has."""

    layout: Layout
    tensors: AdapterTensors


def random_adapter(
    config: ModelConfig, shape: AdapterShape, dtype: torch.dtype, seed: int, train: bool
) -> RandomAdapter:
    layout = make_layout(config, shape)
    flat = fresh_weights(layout, seed) + 0.01 * torch.randn(
        layout.size, generator=torch.Generator().manual_seed(seed + 1)
    )
    grad = torch.zeros(layout.size) if train else None
    return RandomAdapter(layout, AdapterTensors(flat.to(dtype), layout.plan, shape.rank, shape.scale, grad))


def machine() -> dict[str, str | int]:
    """What the numbers were measured on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "torch": torch.__version__,
        "date": date.today().isoformat(),
    }


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], json_file: Path | None) -> None:
    """Print a table, and write it where a file is named."""
    table = Table(*columns, title=title, box=None, pad_edge=False, header_style="bold", title_justify="left")
    for row in rows:
        table.add_row(*(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row))
    Console().print(table)
    if json_file is not None:
        records: list[dict[str, Any]] = [dict(zip(columns, row, strict=True)) for row in rows]
        json_file.write_text(json.dumps({"title": title, "machine": machine(), "rows": records}, indent=2) + "\n")
