"""What a server chose for itself when it first stood on a data folder, and keeps to: the type of numbers.

`auto` is a probe of the machine. A run's numbers must not change because a later probe went otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from motet.engine.settings import EngineSettings
from motet.engine.types import Dtype
from motet.errors import BadConfig

NAME = "dtype"


def with_pinned_dtype(settings: EngineSettings, data_dir: Path) -> EngineSettings:
    """The settings with what was chosen before where they leave it open. BadConfig: the file holds something else."""
    file = data_dir / NAME
    if settings.dtype != "auto" or not file.is_file():
        return settings
    try:
        return replace(settings, dtype=TypeAdapter(Dtype).validate_python(file.read_text().strip()))
    except (ValidationError, UnicodeDecodeError):
        raise BadConfig(f"{file} is damaged: give --dtype float32 or bfloat16, as the runs here were trained") from None


def pin_dtype(data_dir: Path, dtype: str) -> None:
    """Note what the first engine here has. BadConfig where it cannot be written."""
    file = data_dir / NAME
    if file.is_file():
        return
    try:
        file.write_text(dtype + "\n")
    except OSError as error:
        raise BadConfig(f"{file} cannot be written ({error}): choose another --data-dir") from None
