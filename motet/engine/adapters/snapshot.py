"""A run's training state as a folder: whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from motet.engine.adapters.run import Run
from motet.engine.types import AdapterShape
from motet.errors import BadRequest, EngineFault, NotFound

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What a folder held: flat float32 tensors by name, as `Run.state` gave them."""

    shape: AdapterShape
    step: int
    tensors: dict[str, Tensor]


def save_snapshot(folder: Path, run: Run) -> None:
    """Write the folder beside its place, fsync, then name it. BadRequest where the name is taken."""
    if folder.exists():
        raise BadRequest(f"{folder} exists already: choose another name")
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    about = {"format": FORMAT, "shape": asdict(run.layout.shape), "step": run.step}
    (partial / "run.json").write_text(json.dumps(about, indent=2))
    save_file(run.state(), partial / "run.safetensors")
    for path in [*partial.iterdir(), partial]:
        _sync(path)
    os.replace(partial, folder)
    _sync(folder.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def load_snapshot(folder: Path) -> Snapshot:
    """NotFound: no such folder. EngineFault: it is torn."""
    if not (folder / "run.json").is_file():
        raise NotFound(f"{folder} holds no saved run")
    try:
        about = json.loads((folder / "run.json").read_text())
        tensors = load_file(folder / "run.safetensors")
        return Snapshot(AdapterShape(**about["shape"]), int(about["step"]), tensors)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise EngineFault(f"the saved run in {folder} is torn: {error}") from error


def restore_run(run: Run, snapshot: Snapshot, optimizer: bool) -> None:
    """Give a new run what a snapshot held; without `optimizer` the weights only."""
    kept = snapshot.tensors if optimizer else {"master": snapshot.tensors["master"]}
    run.restore(kept)
    run.step = snapshot.step if optimizer else 0
    assert run.master.dtype == torch.float32
