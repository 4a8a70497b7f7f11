"""A recipe as a Python function says what the same recipe as TOML says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from motet.errors import BadConfig
from motet.lab.experiments.config import Experiment, Sweep
from motet.lab.experiments.recipe import read_recipe
from motet.lab.experiments.sweep_folder import Asked, make_folder, read_folder

PYTHON = """
from motet.lab.envs.settings import WordProblemSettings
from motet.lab.experiments.config import Experiment, Sweep

def recipe() -> Sweep:
    words = WordProblemSettings(operators="+-*/", examples=0)
    made = [
        Experiment(name=f"learning_rate={rate}", learning_rate=rate, rank=8, environment=words) for rate in (1e-3, 5e-4)
    ]
    return Sweep("same", "pocket", made)
"""
TOML = """
model = "pocket"
rank = 8
learning_rate = [1e-3, 5e-4]
environment = { name = "word_problems", operators = "+-*/", examples = 0 }
"""


def written(folder: Path, text: str, name: str = "same.py") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_both_say_the_same(tmp_path: Path) -> None:
    python, toml = read_recipe(written(tmp_path, PYTHON)), read_recipe(written(tmp_path, TOML, "same.toml"))
    assert python == toml and len(python.experiments) == 2
    out = tmp_path / "out"
    make_folder(out, Asked(python, None, ("wandb",)), tmp_path / "same.py")
    assert read_folder(out) == Asked(python, None, ("wandb",))  # goes on without the file
    assert (out / "experiments.py").read_text() == PYTHON


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1", "it defines no recipe"),
        ("def recipe(): return []", "gives list, not a Sweep"),
        ("def recipe(: pass", "is not Python"),
        (PYTHON.replace("rank=8", "rank=0"), "Experiment.rank: Input should be greater"),
        (PYTHON.replace("examples=0", "exampels=0"), "WordProblemSettings.exampels: Extra inputs"),
        (PYTHON.replace("learning_rate={rate}", "same"), "two experiments are called 'same'"),
        (PYTHON.replace("made)", "[])"), "there is no experiment in it"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadConfig, match=told) as error:
        read_recipe(written(tmp_path, text))
    assert str(tmp_path / "same.py") in str(error.value)


def test_no_file_and_errors_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="there is no experiment file"):
        read_recipe(tmp_path / "none.py")
    with pytest.raises(ZeroDivisionError):
        read_recipe(written(tmp_path, "def recipe(): return 1 / 0"))


def test_names_are_folders() -> None:
    with pytest.raises(BadConfig, match="two experiments are called 'a_b'"):
        Sweep("s", None, [Experiment(name="a/b"), Experiment(name="a b")])


EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "file", sorted(set(EXAMPLES.rglob("*.toml")) - set(EXAMPLES.glob("loop/*"))), ids=lambda file: file.stem
)
def test_every_example_is_a_recipe(file: Path) -> None:
    sweep = read_recipe(file)
    assert sweep.experiments
    for one in sweep.experiments:
        assert one.data is None or (EXAMPLES.parent / one.data.path).is_file()


def test_the_recipe_in_the_docs_is_one(tmp_path: Path) -> None:
    told = (EXAMPLES.parent / "docs" / "experiments.md").read_text()
    (block,) = re.findall(r"```python\n(.*?def recipe.*?)```", told, re.DOTALL)
    sweep = read_recipe(written(tmp_path, block))
    assert [one.rank for one in sweep.experiments] == [4, 16, 64]


def test_the_example_data_is_as_it_is_made(tmp_path: Path) -> None:
    made = runpy.run_path(str(EXAMPLES / "data" / "make.py"))
    assert made["answer"]("C", 4) == "G" and made["answer"]("C", -1) == "B"
    made["main"].__globals__["HERE"] = tmp_path
    made["main"]()
    for file in ("talks.jsonl", "pairs.jsonl", "judged.jsonl"):
        assert (tmp_path / file).read_text() == (EXAMPLES / "data" / file).read_text()
