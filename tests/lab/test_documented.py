"""docs/experiments.md tells every field, every algorithm, every environment and every finding, and none that is not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import typer.main
from pydantic import BaseModel
from typer.core import TyperGroup

from motet.cli import app
from motet.lab.algorithms.settings import ALGORITHMS
from motet.lab.experiments.checks import EARLY, NAMES
from motet.lab.experiments.config import SECTIONS, Experiment

TOLD = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text()
WHOLE_FILE = {"model", "experiment"}


def part(title: str) -> str:
    """What stands under a heading."""
    return re.split(r"^## ", TOLD.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]


def rows(text: str) -> set[str]:
    """The first cell of each row of its tables."""
    cells = set(re.findall(r"^\| `?([\w-]+)`? \|", text, re.MULTILINE))
    return cells - {"field", "name", "finding"} | ({"name"} if "| `name` |" in text else set())


def fields(models: Iterable[type[BaseModel]]) -> set[str]:
    return {field for model in models for field in model.model_fields}


def test_every_field_of_an_experiment_is_told() -> None:
    assert rows(part("An experiment")) == set(Experiment.model_fields) | WHOLE_FILE


def test_every_field_of_a_section_is_told_and_none_that_is_not_there() -> None:
    environment, data, algorithm = (rows(part(f"`[{name}]`")) for name in ("environment", "data", "algorithm"))
    assert environment == fields(SECTIONS["environment"].values())
    assert data | {"path"} == fields(SECTIONS["data"].values())  # `path` is told in one place
    assert algorithm | {"name"} == fields(ALGORITHMS.values()) | set(ALGORITHMS)


def test_every_environment_is_told() -> None:
    names = part("`[environment]`")
    assert all(f"`{name}`" in names for name in SECTIONS["environment"])


def test_every_finding_is_told() -> None:
    assert rows(part("What is looked for")) == {*NAMES, *EARLY}


def test_every_flag_of_motet_run_is_told() -> None:
    commands = typer.main.get_command(app)
    assert isinstance(commands, TyperGroup)
    flags = {name for parameter in commands.commands["run"].params for name in parameter.opts if name[:2] == "--"}
    assert {flag for flag in flags if f"`{flag}" not in TOLD} == set()
