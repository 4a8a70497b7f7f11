"""Bytes on a device, before anything is started: the base model, what runs and versions take, keys and values, a pass.

Matrices of a LoRA adapter of rank R on a projection D_in -> D_out are R (D_in + D_out) numbers. A run holds them as
float32 masters, in the base model's dtype for the kernels, and from its first step on as a gradient and two Adam
moments, float32 each; a version holds one copy in the base model's dtype.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from motet.errors import BadConfig

FLOAT = 4
GIB = 1024**3
MIB = 1024**2


@dataclass(frozen=True)
class Sizes:
    """What a model's configuration says."""

    layers: int
    width: int
    inner: int  # of the MLP
    heads: int
    kv_heads: int
    head_width: int
    vocabulary: int
    tied: bool

    @property
    def projections(self) -> int:
        """Sum of D_in + D_out over the seven projections of a layer."""
        q, kv = self.heads * self.head_width, self.kv_heads * self.head_width
        attention = (self.width + q) + 2 * (self.width + kv) + (q + self.width)
        return attention + 3 * (self.width + self.inner)

    @property
    def parameters(self) -> int:
        q, kv = self.heads * self.head_width, self.kv_heads * self.head_width
        layer = self.width * (2 * q + 2 * kv) + 3 * self.width * self.inner + 2 * self.width
        heads = 1 if self.tied else 2
        return self.layers * layer + heads * self.vocabulary * self.width + self.width

    def adapter(self, rank: int) -> int:
        """Numbers in an adapter on attention and MLP."""
        return self.layers * rank * self.projections


@dataclass(frozen=True)
class Load:
    """What the device is to hold."""

    runs: int
    rank: int
    sequences: int
    context: int  # tokens of each sequence
    pass_rows: int
    item_bytes: int = 2  # of the base model's dtype


@dataclass(frozen=True)
class Bytes:
    """Where they go."""

    base: int
    runs: int
    versions: int
    keys_and_values: int
    training_pass: int

    @property
    def total(self) -> int:
        return self.base + self.runs + self.versions + self.keys_and_values + self.training_pass


def bytes_of(sizes: Sizes, load: Load) -> Bytes:
    """One version of each run is sampled from while the next is published: two are there at most."""
    adapter = sizes.adapter(load.rank)
    kv = 2 * sizes.layers * sizes.kv_heads * sizes.head_width * load.item_bytes
    # kept for the backward: each layer's input, and one layer's inside while it is computed again
    inside = 6 * sizes.width + 3 * sizes.inner + 3 * sizes.heads * sizes.head_width
    rows = load.pass_rows * (sizes.layers * sizes.width * load.item_bytes + inside * FLOAT)
    return Bytes(
        base=sizes.parameters * load.item_bytes,
        runs=load.runs * adapter * (4 * FLOAT + load.item_bytes),
        versions=2 * load.runs * adapter * load.item_bytes,
        keys_and_values=load.sequences * load.context * kv,
        training_pass=rows,
    )


def read_sizes(folder: Path) -> Sizes:
    """From a Hugging Face folder. BadConfig: no config.json, or one of another kind of model."""
    try:
        told = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        heads = told["num_attention_heads"]
        return Sizes(
            layers=told["num_hidden_layers"],
            width=told["hidden_size"],
            inner=told["intermediate_size"],
            heads=heads,
            kv_heads=told.get("num_key_value_heads") or heads,
            head_width=told.get("head_dim") or told["hidden_size"] // heads,
            vocabulary=told["vocab_size"],
            tied=bool(told.get("tie_word_embeddings", False)),
        )
    except (OSError, ValueError, KeyError) as error:
        raise BadConfig(f"{folder} has no config.json of a dense decoder ({error!r}): name such a folder") from None
