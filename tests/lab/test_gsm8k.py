"""GSM8K's files: answers, steps, splits, and what is said when they are not there."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from motet.errors import BadConfig
from motet.lab.envs.gsm8k import EXAMPLES, Gsm8k, read_problems

WORKED = "There are 3*4=<<3*4=12>>12 eggs.\nShe sells 12-2=<<12-2=10>>10.\n#### 10"


def write(folder: Path, name: str, answers: list[str]) -> None:
    lines = [json.dumps({"question": f"{name} {i}?", "answer": answer}) for i, answer in enumerate(answers)]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "train", ["Just so.\n#### 1,234", *[WORKED] * (EXAMPLES + 4)])
    write(tmp_path, "test", ["#### -5", WORKED])
    return tmp_path


def test_answers_and_steps(folder: Path) -> None:
    problems = read_problems(folder / "train.jsonl")
    assert (problems[0].answer, problems[0].steps) == (Fraction(1234), ())
    assert (problems[1].answer, problems[1].steps) == (Fraction(10), ("3*4", "12-2"))


def test_splits(folder: Path) -> None:
    source = Gsm8k(folder, seed=1)
    assert source.problem("example", 0).question == "train 1?"  # the first cannot be worked with the Calculator
    trained = {source.problem("train", i).question for i in range(5)}
    assert trained == {f"train {i}?" for i in range(EXAMPLES, EXAMPLES + 5)}
    assert source.problem("train", 5) == source.problem("train", 0)
    assert [source.problem("held_out", i).answer for i in (0, 1)] == [-5, 10]
    assert Gsm8k(folder, seed=1).problem("train", 0) == source.problem("train", 0)


def test_missing_and_strange_files(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="environment.path"):
        Gsm8k(tmp_path)
    write(tmp_path, "train", ["no number here"])
    with pytest.raises(BadConfig, match="train.jsonl:1: no number"):
        Gsm8k(tmp_path)
    (tmp_path / "train.jsonl").write_text('{"question": "How many?"}')
    with pytest.raises(BadConfig, match="train.jsonl:1 is not a line of GSM8K.*answer"):
        Gsm8k(tmp_path)
    (tmp_path / "train.jsonl").write_text("{")
    with pytest.raises(BadConfig, match="train.jsonl:1 is not a line"):
        Gsm8k(tmp_path)


def test_a_file_that_is_too_short_or_has_strange_line_ends(folder: Path) -> None:
    write(folder, "train", [WORKED] * EXAMPLES)
    with pytest.raises(BadConfig, match="no train problems"):
        Gsm8k(folder)
    line = json.dumps({"question": "One\u2028line?", "answer": WORKED}, ensure_ascii=False)
    (folder / "test.jsonl").write_text(f"{line}\n", encoding="utf-8")
    assert [one.question for one in read_problems(folder / "test.jsonl")] == ["One\u2028line?"]
