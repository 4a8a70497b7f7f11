"""GSM8K from its own files: grade-school word problems whose answer stands after `####`.

The published solutions carry their arithmetic as `<<16-3-4=9>>`; these are the steps of a worked example.
The first problems of the training file serve as worked examples and are never trained on; held-out problems
are those of the test file.
"""

from __future__ import annotations

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
    """Problems of the folder's train.jsonl (in an order drawn by `seed`) and test.jsonl."""

    folder: Path
    seed: int = 0
    _splits: dict[Split, list[Problem]] = field(init=False)

    def __post_init__(self) -> None:
        train = read_problems(self.folder / "train.jsonl")
        examples, rest = train[:EXAMPLES], train[EXAMPLES:]
        Random(self.seed).shuffle(rest)
        held_out = read_problems(self.folder / "test.jsonl")
        worked = [one for one in examples if _is_worked(one)]
        self._splits = {"example": worked, "train": rest, "held_out": held_out}

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
    lines = file.read_text(encoding="utf-8").splitlines()
    return [_read(line, f"{file}:{number}") for number, line in enumerate(lines, 1) if line.strip()]


def _read(line: str, place: str) -> Problem:
    record = json.loads(line)
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
