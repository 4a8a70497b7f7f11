"""Experiment files: TOML, validated, with lists as sweeps. docs/experiments.md tells every field."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from motet.errors import BadConfig
from motet.lab.algorithms.files import DataSettings
from motet.lab.algorithms.grpo import Grpo
from motet.lab.algorithms.settings import ALGORITHMS, AnyAlgorithm
from motet.lab.envs.settings import ENVIRONMENTS, AnyEnvironment, WordProblemSettings
from motet.lab.experiments.checks import EARLY, NAMES
from motet.settings_file import Table, read_toml, unknown_key

WHOLE_FILE = ("model", "experiment")  # keys that no single experiment has
FOLDER_BYTES = 200  # file systems take 255 for a name


class Experiment(BaseModel):
    """One experiment: an environment or a file of examples, an algorithm and a run."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    name: str = Field(default="experiment", min_length=1)
    seed: int = Field(default=0, ge=0, lt=2**63)
    steps: int = Field(default=10, ge=0)
    problems: int = Field(default=8, ge=1)
    samples: int = Field(default=8, ge=1)
    temperature: float = Field(default=1.0, gt=0)
    mode: Literal["sync", "async"] = "sync"
    max_staleness: int = Field(default=1, ge=0)
    learning_rate: float | None = Field(default=5e-4, gt=0)  # None: "auto", proposed from the size of the base model
    schedule: Literal["constant", "linear"] = "constant"
    weight_decay: float = Field(default=0.0, ge=0)
    grad_clip: float = Field(default=0.0, ge=0)
    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32.0, gt=0)
    attention: bool = True
    mlp: bool = True
    unembed: bool = False
    eval_problems: int = Field(default=200, ge=0)
    eval_every: int = Field(default=0, ge=0)
    checkpoint_every: int = Field(default=5, ge=0)
    stop_on: str = ""
    environment: AnyEnvironment = WordProblemSettings()
    data: DataSettings | None = None
    algorithm: AnyAlgorithm = Grpo()

    @field_validator("learning_rate", mode="before")
    @classmethod
    def _auto(cls, rate: object) -> object:
        return None if rate == "auto" else rate

    @field_validator("stop_on")
    @classmethod
    def _known(cls, stop_on: str) -> str:
        known = ("any", *NAMES, *EARLY)
        if wrong := {one.strip() for one in stop_on.split(",") if stop_on} - {*known}:
            raise ValueError(f"there is no finding {min(wrong)!r}; there are {', '.join(known)}")
        return stop_on

    @model_validator(mode="after")
    def _fits(self) -> Self:
        takes, name = self.algorithm.takes, getattr(self.algorithm, "name", "")
        if takes != "episodes" and self.data is None:
            raise ValueError(f"{name} learns from {takes} of a file: add a section [data] with its path")
        if takes == "episodes" and self.data is not None:
            raise ValueError(f"{name} learns from episodes: leave [data] out, or choose sft, dpo or kto")
        if self.data is not None and self.mode == "async":
            raise ValueError(f"nobody writes what {name} learns from: leave mode out")
        least = self.algorithm.least_samples
        if self.data is None and self.samples < least:
            raise ValueError(
                f"{name} compares the episodes of a problem: set samples to {least} or more, or choose reinforce or ppo"
            )
        if self.algorithm.wants_hints and not self.environment.gives_hints:
            raise ValueError(
                f"{name} learns from hints, and these episodes have none: set environment.hints = true for "
                "word_problems or gsm8k, or write an environment of your own that gives a hint with its first Cue"
            )
        return self

    @property
    def folder(self) -> str:
        """The name as a folder's: one step down, whatever stands in it, and no longer than a file system takes."""
        name = re.sub(r"[^\w.=+-]+", "_", self.name).lstrip(".") or "_"
        return name.encode()[:FOLDER_BYTES].decode(errors="ignore")

    def rate_at(self, step: int, rate: float) -> float:
        """The learning rate of a step, from 1: `rate` throughout, or falling in a line to a last step above 0."""
        return rate if self.schedule == "constant" else rate * (1 - (step - 1) / max(self.steps, 1))


SECTIONS: dict[str, dict[str, type[BaseModel]]] = {
    "environment": ENVIRONMENTS,
    "data": {"": DataSettings},
    "algorithm": dict(ALGORITHMS),
}


@dataclass(frozen=True)
class Sweep:
    """What one file asks for. model: None is whatever the server serves."""

    name: str
    model: str | None
    experiments: list[Experiment]

    def __post_init__(self) -> None:
        folders = [one.folder for one in self.experiments]
        if not folders:
            raise BadConfig("there is no experiment in it")
        if twice := {one for one in folders if folders.count(one) > 1}:
            raise BadConfig(f"two experiments are called {min(twice)!r}; give each [[experiment]] a name")


def load(file: Path) -> Sweep:
    """Read an experiment file. Raises BadConfig: no such file, not TOML, an unknown key, a wrong value."""
    table = read_toml(file, "experiment file")
    try:
        return parse(table, file.stem)
    except BadConfig as error:
        raise BadConfig(f"{file}: {error}") from None


def parse(table: Table, name: str) -> Sweep:
    """From a table to experiments: one for each [[experiment]] and each combination of listed values."""
    common = dict(table)
    model = common.pop("model", None)
    overrides = common.pop("experiment", [{}])
    if not isinstance(model, str | None):
        raise BadConfig("model must be a string: a name or a folder")
    if not isinstance(overrides, list) or not overrides or not all(isinstance(one, dict) for one in overrides):
        raise BadConfig("write each experiment as an [[experiment]] table")
    experiments = [_experiment(one) for override in overrides for one in _grid(_merge(common, override), override)]
    return Sweep(name, model, experiments)


def _merge(common: Table, override: Table) -> Table:
    """The override wins; a section in both is merged, unless the override names another one."""
    merged = {**common, **override}
    for key in SECTIONS:
        old, new = common.get(key), override.get(key)
        if isinstance(old, dict) and isinstance(new, dict) and new.get("name", old.get("name")) == old.get("name"):
            merged[key] = {**old, **new}
    return merged


def _grid(table: Table, override: Table) -> Iterator[Table]:
    """One table for each combination of the values given as lists, named after what differs."""
    flat: dict[tuple[str, ...], Any] = {}
    for key, value in table.items():
        inside = key in SECTIONS and isinstance(value, dict)
        flat |= {(key, inner): v for inner, v in value.items()} if inside else {(key,): value}
    axes = {path: value for path, value in flat.items() if isinstance(value, list)}
    if empty := [path for path, value in axes.items() if not value]:
        raise BadConfig(f"{'.'.join(empty[0])} is an empty list")
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        one: Table = {}
        for path, value in {**flat, **chosen}.items():
            inner = one.setdefault(path[0], {}) if len(path) == 2 else one
            inner[path[-1]] = value
        parts = [override["name"]] if "name" in override else _differences(override)
        parts += [f"{path[-1]}={value}" for path, value in chosen.items()]
        yield {**one, "name": " ".join(parts)} if parts else one


def _differences(override: Table) -> list[str]:
    """`rank=8` for each plain value that an [[experiment]] table sets."""
    return [f"{key}={value}" for key, value in override.items() if not isinstance(value, dict | list)]


def _experiment(table: Table) -> Experiment:
    if isinstance(algorithm := table.get("algorithm"), dict):
        table = {**table, "algorithm": {"name": "grpo", **algorithm}}
    try:
        return Experiment.model_validate(table)
    except ValidationError as error:
        told = [_told(one["loc"], one["type"], one["msg"]) for one in error.errors()]
        raise BadConfig("; ".join(told)) from None


def _told(place: tuple[int | str, ...], kind: str, message: str) -> str:
    """One mistake as a person would tell it."""
    message = message.removeprefix("Value error, ")
    if not place:
        return message
    key, section = str(place[-1]), str(place[0])
    if kind == "union_tag_not_found":
        return f"[{section}] needs a name; see docs/experiments.md for the choices"
    if kind != "extra_forbidden":
        return f"{'.'.join(map(str, place))}: {message}"
    if key in WHOLE_FILE:
        return f"{key} is of the whole file: write it above every [[experiment]] and every section"
    if len(place) == 1:
        return unknown_key(key, {*Experiment.model_fields, *WHOLE_FILE})
    # pydantic puts the section's own name between, where there are several to choose from
    choices = SECTIONS[section]
    return unknown_key(key, choices.get(str(place[1]), next(iter(choices.values()))).model_fields, section)
