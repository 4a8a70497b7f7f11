"""Where each matrix of an adapter lies in its one flat tensor, and how a fresh one is drawn."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from motet.engine.models.config import ModelConfig
from motet.engine.ops.lora import SitePlan
from motet.engine.types import AdapterShape


@dataclass(frozen=True)
class Layout:
    """The plan of one adapter shape on one base model; `size` is its number of parameters."""

    shape: AdapterShape
    plan: tuple[SitePlan | None, ...]
    size: int


def site_sizes(config: ModelConfig) -> list[tuple[int, tuple[int, ...]]]:
    """(D_in, splits of D_out) of every site of a base model: each layer's in the order of `SITES`, then the head."""
    heads, kv = config.heads * config.head_width, config.kv_heads * config.head_width
    layer = [
        (config.width, (heads, kv, kv)),
        (heads, (config.width,)),
        (config.width, (config.ffn_width, config.ffn_width)),
        (config.ffn_width, (config.width,)),
    ]
    return layer * config.layers + [(config.width, (config.vocabulary,))]


def _touched(shape: AdapterShape, layers: int) -> list[bool]:
    return [shape.attention, shape.attention, shape.mlp, shape.mlp] * layers + [shape.unembed]


def make_layout(config: ModelConfig, shape: AdapterShape) -> Layout:
    """Lay A and B of every touched site end to end."""
    plan: list[SitePlan | None] = []
    offset = 0
    for (d_in, splits), touched in zip(site_sizes(config), _touched(shape, config.layers), strict=True):
        if not touched:
            plan.append(None)
            continue
        a_size, b_size = d_in * len(splits) * shape.rank, shape.rank * sum(splits)
        plan.append(SitePlan(offset, offset + a_size, d_in, splits))
        offset += a_size + b_size
    return Layout(shape, tuple(plan), offset)


def fresh_weights(layout: Layout, seed: int) -> Tensor:
    """A flat float32 adapter as LoRA starts: A uniform in +-1/sqrt(D_in), B zero (Hu et al. 2021; PEFT's rule).

    Each projection's A follows from the seed and its own place, so that it is the same whatever else is trained.
    """
    rank = layout.shape.rank
    flat = torch.zeros(layout.size)
    for number, site in enumerate(layout.plan):
        if site is None:
            continue
        bound = 1 / math.sqrt(site.d_in)
        a = flat[site.a_start : site.b_start].view(site.d_in, len(site.splits), rank)
        for split in range(len(site.splits)):
            drawn = torch.rand(rank, site.d_in, generator=_generator(seed, number, split))
            a[:, split] = (drawn * (2 * bound) - bound).T
    return flat


def _generator(seed: int, site: int, split: int) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}:{site}:{split}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
