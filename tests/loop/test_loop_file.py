"""A loop's file: what is wrong is told; docs/loop.md tells every key, and none that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main
from pydantic import BaseModel
from typer.core import TyperGroup

from motet.cli import app
from motet.errors import BadConfig
from motet.lab.loop.settings import SECTIONS, Policy, load

TOLD = (Path(__file__).parents[2] / "docs" / "loop.md").read_text()


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "loop.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name = 'a'\nwhn = {}", "unknown key 'whn'; did you mean 'when'?"),
        ("name = 'a'\n[learn]\ncorrection = 'sft'", "unknown key 'correction' in [learn]; did you mean 'corrections'?"),
        ("name = 'a'\n[learn]\ncorrections = 'ppo'", "learn.corrections: "),
        ("name = 'A b'", "name: "),
        ("[when]\nitems = 0", "when.items: "),
        ("name = 'a'\n[tasks]\nstepz = 3\nenvironment = {name = 'word_problems'}", "did you mean 'steps'?"),
        ("name = 'a'\n[learn]\nlearning_rate = 'fast'", "learn.learning_rate: "),
        ("name = ", "is not TOML"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadConfig, match=re.escape(told)):
        load(written(tmp_path, text))


def test_a_file_says_what_it_says(tmp_path: Path) -> None:
    policy = load(written(tmp_path, "name = 'a'\n[learn]\nlearning_rate = 'auto'\n[anchor]\nprompts = 'p.jsonl'"))
    assert policy.learn.learning_rate is None and policy.anchor.prompts == tmp_path / "p.jsonl"
    with pytest.raises(BadConfig, match="there is no loop file"):
        load(tmp_path / "nowhere.toml")


def rows(title: str) -> set[str]:
    """The first cells of the table under a heading."""
    part = re.split(r"^## ", TOLD.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]
    return set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE))


def test_every_key_is_told() -> None:
    assert rows("The file") == set(Policy.model_fields) - set(SECTIONS)
    for name, section in SECTIONS.items():
        assert issubclass(section, BaseModel) and rows(f"`[{name}]`") == set(section.model_fields), name


def test_every_flag_is_told() -> None:
    commands = typer.main.get_command(app)
    assert isinstance(commands, TyperGroup)
    flags = {name for parameter in commands.commands["loop"].params for name in parameter.opts if name[:2] == "--"}
    assert {flag for flag in flags if f"`{flag}" not in TOLD} == set()
