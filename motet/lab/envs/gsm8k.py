"""GSM8K, from its own files or from the hub: grade-school word problems whose answer stands after `####`.

The published solutions carry their arithmetic as `<<16-3-4=9>>`; these are the steps of a worked example.
The first problems of the training file serve as worked examples and are never trained on; held-out problems
are those of the test file. From the hub it comes through the `datasets` package, which is no dependency of Motet.
"""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from random import Random

from motet.errors import BadConfig
from motet.lab.envs.calculator import BadExpression, evaluate, read_number
from motet.lab.envs.problems import Problem, Split

EXAMPLES = 20  # training problems set aside
_STEP = re.compile(r"<<([^=<>]*)=[^<>]*>>")


@dataclass
class Gsm8k:
    """Training problems in an order drawn by `seed`, and test problems. folder: None is the hub. Raises BadConfig."""

    folder: Path | None
    seed: int = 0
    _splits: dict[Split, list[Problem]] = field(init=False)

    def __post_init__(self) -> None:
        train = self._read("train")
        examples, rest = train[:EXAMPLES], train[EXAMPLES:]
        Random(self.seed).shuffle(rest)
        worked = [one for one in examples if _is_worked(one)]
        self._splits = {"example": worked, "train": rest, "held_out": self._read("test")}
        if empty := [split for split, problems in self._splits.items() if not problems]:
            raise BadConfig(f"these files of GSM8K have no {empty[0]} problems: fetch them again")

    def _read(self, name: str) -> list[Problem]:
        return read_hub(name) if self.folder is None else read_problems(self.folder / f"{name}.jsonl")

    def problem(self, split: Split, index: int) -> Problem:
        """After the last problem of a split comes its first again."""
        problems = self._splits[split]
        return problems[index % len(problems)]


def read_problems(file: Path) -> list[Problem]:
    """All problems of one file. Raises BadConfig when it is missing or is not GSM8K's."""
    if not file.is_file():
        raise BadConfig(
            f"there is no {file}; set environment.path to the folder with GSM8K's train.jsonl and test.jsonl"
        )
    lines = file.read_text(encoding="utf-8").split("\n")
    return [_parsed(line, f"{file}:{number}") for number, line in enumerate(lines, 1) if line.strip()]


def _parsed(line: str, place: str) -> Problem:
    try:
        record = json.loads(line)
        record["question"], record["answer"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise BadConfig(f"{place} is not a line of GSM8K: {error!r}") from None
    return _problem(record, place)


def read_hub(name: str) -> list[Problem]:
    """All problems of "train" or "test", from the hub. Raises BadConfig without the `datasets` package."""
    if importlib.util.find_spec("datasets") is None:
        raise BadConfig("set environment.path to a folder with GSM8K's files, or `pip install datasets` for the hub")
    records = importlib.import_module("datasets").load_dataset("openai/gsm8k", "main", split=name)
    return [_problem(record, f"{name} {number}") for number, record in enumerate(records)]


def _problem(record: dict[str, str], place: str) -> Problem:
    solution, _, answer = record["answer"].rpartition("####")
    value = read_number(answer)
    if value is None:
        raise BadConfig(f"{place}: no number after ####")
    return Problem(record["question"], value, tuple(_STEP.findall(solution)))


def _is_worked(problem: Problem) -> bool:
    """Whether the steps can be replayed with the Calculator and end at the answer."""
    return bool(problem.steps) and _value(problem.steps) == problem.answer


def _value(steps: tuple[str, ...]) -> Fraction | None:
    try:
        return [evaluate(step) for step in steps][-1]
    except BadExpression:
        return None
