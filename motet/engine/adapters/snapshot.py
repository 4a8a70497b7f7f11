"""A run's training state as a folder: whole or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from motet.engine.adapters.folders import whole_folder
from motet.engine.adapters.layout import Layout
from motet.engine.adapters.run import Run
from motet.engine.adapters.tensors import read_tensors
from motet.engine.ops.finite import all_finite
from motet.engine.types import AdapterShape
from motet.errors import BadRequest, EngineFault, NotFound

FORMAT = 1
MOMENTS = {"first_moment", "second_moment"}


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What a folder held: flat float32 tensors by name, as `Run.state` gave them; "master" is always there."""

    shape: AdapterShape
    step: int
    tensors: dict[str, Tensor]

    def weights_alone(self) -> Snapshot:
        """Without what the optimizer had gathered."""
        return Snapshot(self.shape, 0, {"master": self.tensors["master"]})


def copy_run(run: Run) -> Snapshot:
    """A run's state as it is now, whatever the run does next."""
    return Snapshot(run.layout.shape, run.step, {name: tensor.cpu().clone() for name, tensor in run.state().items()})


def save_snapshot(folder: Path, snapshot: Snapshot) -> None:
    """Write a run's state. BadRequest where the name is taken, EngineFault where it cannot be written."""
    about = {"format": FORMAT, "shape": asdict(snapshot.shape), "step": snapshot.step}
    with whole_folder(folder) as partial:
        (partial / "run.json").write_text(json.dumps(about, indent=2))
        save_file(snapshot.tensors, partial / "run.safetensors")


def load_snapshot(folder: Path) -> Snapshot:
    """NotFound: no such folder. EngineFault: it is torn."""
    try:
        text = (folder / "run.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"{folder} holds no saved run") from None
    except OSError as error:
        raise EngineFault(f"the saved run in {folder} cannot be read: {error}") from error
    try:
        about, tensors = json.loads(text), read_tensors(folder / "run.safetensors")
        _check_tensors(tensors)
        return Snapshot(AdapterShape(**about["shape"]), int(about["step"]), tensors)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise EngineFault(f"the saved run in {folder} is torn: {error}") from error


def _check_tensors(tensors: dict[str, Tensor]) -> None:
    """ValueError where they are not what `Run.state` gives: float32, flat, the moments both; NaN is never saved."""
    names = set(tensors)
    if not {"master"} <= names <= {"master", *MOMENTS, "gradient"} or names & MOMENTS not in (set(), MOMENTS):
        raise ValueError(f"its tensors are {sorted(names)}")
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32 or tensor.ndim != 1:
            raise ValueError(f"{name} is {tensor.dtype} of the shape {tuple(tensor.shape)}, not a line of float32")
        if name != "gradient" and not all_finite(tensor):
            raise ValueError(f"{name} has NaN or infinite values")


def check_fits(snapshot: Snapshot, layout: Layout, folder: Path) -> None:
    """BadRequest where a snapshot was taken on another base model than the layout's."""
    sizes = {tensor.numel() for tensor in snapshot.tensors.values()}
    if sizes != {layout.size}:
        raise BadRequest(
            f"the saved run in {folder} has {max(sizes)} parameters and this base model needs {layout.size}: "
            "it belongs to another base model"
        )
