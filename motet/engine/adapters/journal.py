"""The gradient of a step as a file: flat float32, before clipping; with AdamW's settings it is the whole step."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save
from torch import Tensor

from motet.engine.adapters.folders import whole_file
from motet.engine.adapters.layout import Layout
from motet.engine.adapters.run import Run
from motet.engine.adapters.tensors import read_tensors
from motet.errors import EngineFault

KEY = "gradient"


def write_gradient(file: Path, run: Run) -> None:
    """Write what the run has accumulated, or zeros. EngineFault where it cannot be written; the run is as it was."""
    gradient = torch.zeros_like(run.master) if run.gradient is None else run.gradient
    with whole_file(file) as handle:
        handle.write(save({KEY: gradient}))


def remove_gradient(file: Path) -> None:
    """The file of a step that was not taken. EngineFault where it cannot be removed."""
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise EngineFault(f"{file} cannot be removed ({error}): look at the disk below --data-dir") from error


def read_gradient(file: Path, layout: Layout) -> Tensor:
    """A flat float32 tensor of the layout's size. EngineFault where the file is missing, torn or of another shape."""
    try:
        tensors = read_tensors(file)
    except (OSError, SafetensorError) as error:
        raise EngineFault(f"the journaled gradient {file} cannot be read: {error}") from error
    gradient = tensors.get(KEY)
    if gradient is None or gradient.dtype != torch.float32 or gradient.shape != (layout.size,):
        found = {name: (str(tensor.dtype), tuple(tensor.shape)) for name, tensor in tensors.items()}
        raise EngineFault(
            f"the journaled gradient {file} is not of this run: {found}, not {layout.size} float32 numbers"
        )
    return gradient
