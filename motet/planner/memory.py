"""Bytes on each device, before anything is started: base model, runs, versions, keys and values, a training pass.

A run holds its adapter as float32 masters, in the base model's dtype for the kernels, and from its first step on as a
gradient and two Adam moments, float32 each; a version is one copy in the base model's dtype. A training pass keeps what
its backward reads (`sizes`), layer by layer; with activation checkpointing each layer's input alone, and one layer's
inside while it is computed again. Training ranks hold a part of the base model each and bring a layer together when it
is its turn (FSDP2: the one in work and the next), and every run whole; sampling devices hold a part of the base model
and of keys and values where one model is cut over several, and every version whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from motet.errors import BadConfig
from motet.planner.sizes import Sizes

GIB = 1024**3
FLOAT = 4
HEAD_ROWS = 128  # of logits that exist at a time, twice: themselves and their gradient
VERSIONS = 2  # of a run: one is sampled from while the next is published
GATHERED = 2  # layers
BaseDtype = Literal["float32", "bfloat16", "float16", "int8", "nf4"]


@dataclass(frozen=True)
class Format:
    """Bytes of a number: in the base model's matrices, and in everything else of its kind (norms, activations)."""

    product: float
    other: int


FORMATS: dict[BaseDtype, Format] = {
    "float32": Format(4, 4),
    "bfloat16": Format(2, 2),
    "float16": Format(2, 2),
    "int8": Format(1, 2),
    "nf4": Format(4.127 / 8, 2),  # with double quantization: Dettmers et al. 2023 (QLoRA), section 3
}


@dataclass(frozen=True)
class Load:
    """What is to be held."""

    runs: int
    rank: int
    sequences: int  # sampled at a time, over all sampling devices
    context: int  # tokens of each
    pass_rows: int  # tokens of a training pass on one device
    dtype: BaseDtype = "bfloat16"
    unembed: bool = False  # adapters on the head too
    checkpointing: bool = False  # of activations


@dataclass(frozen=True)
class Placement:
    """Over which devices. sampling 0: they are the training ranks; split: devices that one sampler is cut over."""

    training: int = 1
    sampling: int = 0
    split: int = 1
    packed_head: bool = False  # a second copy of a tied embedding, as the kernels for CPUs read it

    def __post_init__(self) -> None:
        if self.training < 1 or self.sampling < 0 or self.split < 1:
            raise BadConfig("choose at least one training rank and no negative number of devices")
        if self.sampling == 0 and (self.training > 1 or self.split > 1):
            raise BadConfig("several training ranks cannot sample: give sampling devices of their own")
        if self.sampling % self.split:
            raise BadConfig(
                f"{self.sampling} sampling devices are no multiple of the {self.split} one sampler is cut over"
            )


@dataclass(frozen=True)
class Bytes:
    """Where they go on one device."""

    device: str
    base: int = 0
    gathered: int = 0
    runs: int = 0
    versions: int = 0
    keys_and_values: int = 0
    training_pass: int = 0
    set_aside: int = 0

    @property
    def total(self) -> int:
        parts = (self.base, self.gathered, self.runs, self.versions, self.keys_and_values, self.training_pass)
        return sum(parts) + self.set_aside


def bytes_of(sizes: Sizes, load: Load, placement: Placement, set_aside: int = 0) -> list[Bytes]:
    """What one device of each kind holds. `set_aside`: for the process, the driver and what allocators waste."""
    form = FORMATS[load.dtype]
    base = sizes.products * form.product + (sizes.parameters - sizes.products) * form.other
    if placement.packed_head and sizes.tied:
        base += sizes.vocabulary * sizes.width * form.other
    adapter = sizes.adapter(load.rank, load.unembed)
    several = placement.training > 1
    training = Bytes(
        "training",
        base=round(base / placement.training),
        gathered=GATHERED * max(layer.parameters for layer in sizes.layers) * form.other if several else 0,
        runs=load.runs * adapter * (4 * FLOAT + form.other),
        training_pass=_training_pass(sizes, load),
        set_aside=set_aside,
    )
    samplers = max(placement.sampling, 1) // placement.split
    sequence = load.context * sizes.cached * form.other + sizes.state * FLOAT
    sampling = Bytes(
        "sampling",
        base=round(base / placement.split),
        versions=VERSIONS * load.runs * adapter * form.other,
        keys_and_values=round(-(-load.sequences // samplers) * sequence / placement.split),
        set_aside=set_aside,
    )
    if placement.sampling:
        return [training, sampling]
    return [replace(training, device="", versions=sampling.versions, keys_and_values=sampling.keys_and_values)]


def _training_pass(sizes: Sizes, load: Load) -> int:
    item = FORMATS[load.dtype].other
    kept, most = sum(layer.kept for layer in sizes.layers), max(layer.kept for layer in sizes.layers)
    if load.checkpointing:
        kept = len(sizes.layers) * sizes.width + most
    gradients = most + 2 * sizes.width  # inside the layer that the backward is in, and of the last hidden rows
    return load.pass_rows * (kept + gradients) * item + 2 * HEAD_ROWS * sizes.vocabulary * FLOAT


def most_runs(sizes: Sizes, load: Load, placement: Placement, device_bytes: float, set_aside: int = 0) -> int:
    """How many runs would fit on such devices, all else equal; -1 where the rest alone does not."""
    none = bytes_of(sizes, replace(load, runs=0), placement, set_aside)
    one = bytes_of(sizes, replace(load, runs=1), placement, set_aside)
    return min(int((device_bytes - a.total) // (b.total - a.total)) for a, b in zip(none, one, strict=True))
