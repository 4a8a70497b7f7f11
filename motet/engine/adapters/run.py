"""A run's training state and a version's weights: flat tensors, in memory or in one file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from motet.engine.adapters.layout import Layout
from motet.engine.adapters.tensors import read_tensors
from motet.engine.ops.lora import AdapterTensors
from motet.errors import EngineFault


@contextmanager
def _file_of_ours(file: Path) -> Iterator[None]:
    """EngineFault where a file that takes what does not fit in memory cannot be written or read."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise EngineFault(f"{file} failed ({error}): look at the disk below --data-dir") from error


class Run:
    """FP32 master weights, gradient, Adam moments and step count of one adapter, all flat.

    Moments exist from the first step on, the gradient from the first backward: a fresh run is small.
    """

    master: Tensor
    compute: Tensor  # the master weights as the kernels read them, in the base model's dtype
    gradient: Tensor | None
    first_moment: Tensor | None
    second_moment: Tensor | None
    has_gradient: bool  # something was added to the gradient since it was cleared

    def __init__(
        self,
        name: str,
        layout: Layout,
        kept: dict[str, Tensor],
        step: int,
        dtype: torch.dtype,
        device: torch.device,
        file: Path,
    ) -> None:
        """`kept` is what `state` gave, or float32 "master" weights alone."""
        self.name = name
        self.layout = layout
        self.step = step
        self.published = 0  # versions so far
        self.passing_versions: list[str] = []  # those that newer ones may push out
        self._dtype = dtype
        self._device = str(device)
        self._file = file
        self._bytes = 0  # while it is on disk
        self._adapter: AdapterTensors | None = None
        self._restore(kept)

    @property
    def key(self) -> str:
        return str(self._file)

    @property
    def adapter(self) -> AdapterTensors:
        """The kernels' view, with the gradient to add to."""
        if self._adapter is None:
            if self.gradient is None:
                self.gradient = torch.zeros_like(self.master)
            shape = self.layout.shape
            self._adapter = AdapterTensors(self.compute, self.layout.plan, shape.rank, shape.scale, self.gradient)
        return self._adapter

    def set_gradient(self, gradient: Tensor) -> None:
        """Have this accumulated gradient instead."""
        self.gradient = gradient.to(self._device)
        self.has_gradient = True
        self._adapter = None

    def clear_gradient(self) -> None:
        if self.gradient is not None:
            self.gradient.zero_()
        self.has_gradient = False

    def take_step(self, step: int, master: Tensor, first_moment: Tensor, second_moment: Tensor) -> None:
        """Have these weights, which the kernels read rounded, and these moments; the gradient is cleared."""
        self.step, self.first_moment, self.second_moment = step, first_moment, second_moment
        self.master.copy_(master)
        self.compute.copy_(master)
        self.clear_gradient()

    def state(self, optimizer: bool = True) -> dict[str, Tensor]:
        """What must be kept to go on: the master weights, and moments and a pending gradient where there are."""
        kept = {"master": self.master}
        if optimizer and self.first_moment is not None and self.second_moment is not None:
            kept |= {"first_moment": self.first_moment, "second_moment": self.second_moment}
        if optimizer and self.has_gradient and self.gradient is not None:
            kept["gradient"] = self.gradient
        return kept

    def _restore(self, kept: dict[str, Tensor]) -> None:
        self.master = kept["master"].to(self._device)
        self.compute = self.master.to(self._dtype)
        self.first_moment, self.second_moment, self.gradient = (
            None if name not in kept else kept[name].to(self._device)
            for name in ("first_moment", "second_moment", "gradient")
        )
        self.has_gradient = self.gradient is not None
        self._adapter = None

    def nbytes(self) -> int:
        tensors = (self.master, self.compute, self.gradient, self.first_moment, self.second_moment)
        return self._bytes or sum(t.nbytes for t in tensors if t is not None)

    def spill(self) -> None:
        with _file_of_ours(self._file):
            save_file(self.state(), self._file)
        self._bytes = self.nbytes()
        empty = torch.empty(0)
        self.master = self.compute = empty
        self.gradient = self.first_moment = self.second_moment = self._adapter = None

    def load(self) -> None:
        with _file_of_ours(self._file):
            kept = read_tensors(self._file)
        self._restore(kept)
        self._bytes = 0

    def forget(self) -> None:
        """Remove what was spilled."""
        self._file.unlink(missing_ok=True)


class Version:
    """An immutable snapshot for sampling. `number` counts within its run; the hash is of shape and weights."""

    def __init__(
        self, name: str, number: int, layout: Layout, flat: Tensor, file: Path, run: str | None = None
    ) -> None:
        self.name = name
        self.run = run  # that published it in this process
        self.number = number
        self.layout = layout
        self.content_hash = self._hash(layout, flat)
        self.file = file
        self._written = False  # what the file holds is this version
        self._flat: Tensor | None = flat
        self._device = str(flat.device)
        self._bytes = flat.nbytes
        self._adapter: AdapterTensors | None = None

    @staticmethod
    def _hash(layout: Layout, flat: Tensor) -> str:
        shape = replace(layout.shape, alpha=float(layout.shape.alpha))  # 32 and 32.0 are one
        digest = hashlib.sha256(repr(shape).encode())
        digest.update(flat.cpu().view(torch.uint8).numpy().data)
        return digest.hexdigest()

    @property
    def key(self) -> str:
        return str(self.file)

    @property
    def flat(self) -> Tensor:
        assert self._flat is not None, f"{self.name} is used while it is on disk: pin it first"
        return self._flat

    @property
    def adapter(self) -> AdapterTensors:
        if self._adapter is None:
            shape = self.layout.shape
            self._adapter = AdapterTensors(self.flat, self.layout.plan, shape.rank, shape.scale)
        return self._adapter

    def nbytes(self) -> int:
        return self._bytes

    def spill(self) -> None:
        if not self._written:
            with _file_of_ours(self.file):
                save_file({"flat": self.flat}, self.file)
            self._written = True
        self._flat = self._adapter = None

    def load(self) -> None:
        with _file_of_ours(self.file):
            self._flat = read_tensors(self.file)["flat"].to(self._device)

    def forget(self) -> None:
        """Remove what was spilled."""
        self.file.unlink(missing_ok=True)
