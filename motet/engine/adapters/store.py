"""AdapterStore: every run and every version by name, wherever its bytes are now."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
from torch import Tensor

from motet.engine.adapters.layout import Layout, fresh_weights, make_layout
from motet.engine.adapters.residency import Residency
from motet.engine.adapters.run import Run, Version
from motet.engine.models.config import ModelConfig
from motet.engine.types import LEAST_SEED, MOST_SEED, AdapterShape, as_float32
from motet.errors import BadConfig, BadRequest, NotFound

MAX_ALPHA = 1e6  # beyond, what the adapter adds would overflow before it is trained


class AdapterStore:
    """Runs and versions under one budget of host memory, `folder` taking what does not fit.

    The folder is the store's own: what an earlier process left in it goes first. BadConfig where it cannot be had.
    Runs are touched by the training lane only, versions by both; the tables have one lock.
    """

    def __init__(
        self,
        config: ModelConfig,
        dtype: torch.dtype,
        device: torch.device,
        folder: Path,
        budget_bytes: int,
        max_rank: int,
    ) -> None:
        self.residency = Residency(budget_bytes)
        self._config = config
        self._dtype = dtype
        self._device = device
        self._folder = folder
        self._max_rank = max_rank
        self._runs: dict[str, Run] = {}
        self._versions: dict[str, Version] = {}
        self._layouts: dict[AdapterShape, Layout] = {}
        self._files = 0
        self._lock = threading.Lock()
        _empty(folder)

    def layout(self, shape: AdapterShape) -> Layout:
        """The layout of a shape; equal shapes share one. BadRequest where the shape cannot be."""
        if not 1 <= shape.rank <= self._max_rank:
            raise BadRequest(f"rank {shape.rank} is out of bounds: choose 1 to {self._max_rank}")
        if not (shape.attention or shape.mlp or shape.unembed):
            raise BadRequest("the adapter touches nothing: switch on attention, mlp or unembed")
        if not (shape.alpha <= MAX_ALPHA and as_float32(shape.scale) > 0):
            raise BadRequest(f"alpha is {shape.alpha}: choose a number above 0, {MAX_ALPHA:g} at most")
        if shape not in self._layouts:
            self._layouts[shape] = make_layout(self._config, shape)
        return self._layouts[shape]

    def create_run(self, name: str, shape: AdapterShape, seed: int) -> Run:
        """A fresh run, drawn from its seed. BadRequest where the name is taken, or the shape or the seed cannot be."""
        if not LEAST_SEED <= seed <= MOST_SEED:
            raise BadRequest(f"the seed {seed} is out of bounds: choose {LEAST_SEED} to {MOST_SEED}")
        layout = self.layout(shape)
        return self.add_run(name, layout, {"master": fresh_weights(layout, seed)}, step=0)

    def add_run(self, name: str, layout: Layout, kept: dict[str, Tensor], step: int) -> Run:
        """A run with what `Run.state` once gave. BadRequest where the name is taken."""
        run = Run(name, layout, kept, step, self._dtype, self._device, self._new_file("run"))
        with self._lock:
            if name in self._runs:
                raise BadRequest(f"run {name} exists already: choose another name")
            self._runs[name] = run
        self.residency.add(run)
        return run

    def run(self, name: str) -> Run:
        """NotFound where there is none, EngineFault where it was lost. Touch its tensors inside `training` only."""
        run = self._find(name)
        self.residency.check(run.key)
        return run

    def run_ready(self, name: str) -> bool:
        """Is the run in memory, with room for what it will add? Where not, it is on its way.

        An unknown run is ready: to be made, or to fail at once.
        """
        if not self.residency.has_room():
            return False
        with self._lock:
            run = self._runs.get(name)
        return run is None or self.residency.ready(run.key)

    @contextmanager
    def training(self, runs: list[Run]) -> Iterator[None]:
        """Hold the training state of these runs in memory."""
        with ExitStack() as stack:
            for run in runs:
                self.residency.pin(run.key)
                stack.callback(self.residency.unpin, run.key)
                self.residency.wait(run.key)
            yield

    def drop_run(self, name: str) -> None:
        """Forget a run; its versions stay. NotFound where there is none."""
        run = self._find(name)
        with self._lock:
            del self._runs[name]
        self.residency.remove(run.key)
        run.forget()

    def publish(self, run: Run, name: str) -> Version:
        """Copy the weights as the kernels read them into a new version, and turn the name to it."""
        version = self.add_version(name, run.published + 1, run.layout, run.compute.clone(), run.name)
        run.published += 1
        return version

    def add_version(self, name: str, number: int, layout: Layout, flat: Tensor, run: str | None = None) -> Version:
        """A version of given weights; one that had the name before ends with its last holder."""
        version = Version(name, number, layout, flat.to(self._device), self._new_file("version"), run)
        self.residency.add(version)
        with self._lock:
            before = self._versions.get(name)
            self._versions[name] = version
            gone = before is not None and self.residency.pins(before.key) == 0
        if before is not None and gone:
            self._remove(before)
        return version

    def acquire(self, name: str) -> Version:
        """Hold a version: it stays as it is, and is not sent out, until `release`. NotFound where there is none.

        Its tensors may be touched once `version_ready` says so.
        """
        with self._lock:
            if name not in self._versions:
                raise NotFound(f"no version {name}: publish it first, or it has been dropped")
            version = self._versions[name]
            self.residency.pin(version.key)
            return version

    def stands(self, version: Version) -> bool:
        """May anybody still ask for it? Whoever holds it may go on after that."""
        with self._lock:
            return self._versions.get(version.name) is version

    def version_ready(self, version: Version) -> bool:
        """Is the version in memory? Where not, it is on its way. EngineFault where it was lost."""
        self.residency.check(version.key)
        return self.residency.ready(version.key)

    def wait_for(self, version: Version) -> None:
        """Return once the version is in memory. EngineFault where it was lost."""
        self.residency.wait(version.key)

    def release(self, version: Version) -> bool:
        """One holder less. A version that nobody names any more goes with its last holder: True where it went."""
        with self._lock:
            left = self.residency.unpin(version.key)
            gone = left == 0 and self._versions.get(version.name) is not version
        if gone:
            self._remove(version)
        return gone

    def drop_version(self, name: str) -> None:
        """Take the name away; the weights go with their last holder. Unknown names are no error."""
        with self._lock:
            version = self._versions.pop(name, None)
            gone = version is not None and self.residency.pins(version.key) == 0
        if version is not None and gone:
            self._remove(version)

    def counts(self) -> dict[str, float]:
        """Gauges for people."""
        with self._lock:
            runs, versions = len(self._runs), len(self._versions)
        return {
            "runs": runs,
            "versions": versions,
            "adapter_bytes": self.residency.used_bytes(),
            "swaps_in": self.residency.swaps_in,
            "swaps_out": self.residency.swaps_out,
        }

    def close(self) -> None:
        """Nothing moves any more, and nothing is left on disk."""
        self.residency.close()
        for run in self._runs.values():
            run.forget()
        for version in self._versions.values():
            version.forget()

    def _find(self, name: str) -> Run:
        with self._lock:
            if name not in self._runs:
                raise NotFound(f"no run {name}: create it first, or it has been dropped")
            return self._runs[name]

    def _remove(self, version: Version) -> None:
        self.residency.remove(version.key)
        version.forget()

    def _new_file(self, kind: str) -> Path:
        with self._lock:
            self._files += 1
            return self._folder / f"{kind}-{self._files:06d}.safetensors"


def _empty(folder: Path) -> None:
    """Make the folder, or remove what a process that was killed left in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("*.safetensors"):
            left.unlink()
    except OSError as error:
        raise BadConfig(f"{folder} cannot be used ({error}): choose another --data-dir") from error
