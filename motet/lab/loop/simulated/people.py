"""What a file of played people gives: what somebody asks, what they think of an answer, how a spoilt batch corrects.

def question(number: int, measured: bool) -> Question      the same number is always the same person's
def opinion(asked: Question, answer: str) -> Opinion
def poison(asked: Question) -> str                         only where a batch is to be poisoned
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from motet.errors import BadConfig


@dataclass(frozen=True)
class Question:
    """text: as it is asked. about: what only the person knows, for judging."""

    text: str
    about: str


@dataclass(frozen=True)
class Opinion:
    """accepted; else what should have been said."""

    accepted: bool
    correction: str


@dataclass(frozen=True)
class People:
    """A file's functions. measured: of those who only measure, and share no question with those who teach."""

    question: Callable[[int, bool], Question]
    opinion: Callable[[Question, str], Opinion]
    poison: Callable[[Question], str]


def open_people(file: Path) -> People:
    """BadConfig: there is no such file, or it does not define them."""
    spec = importlib.util.spec_from_file_location("motet_people", file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise BadConfig(f"there is no Python file {file}: set people of [simulation] to one")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = [getattr(module, name, None) for name in ("question", "opinion", "poison")]
    if not callable(found[0]) or not callable(found[1]):
        raise BadConfig(f"{file} must define question(number, measured) and opinion(asked, answer): see docs/loop.md")
    return People(found[0], found[1], found[2] if callable(found[2]) else _nobody)


def _nobody(asked: Question) -> str:
    raise BadConfig("a poisoned batch needs poison(asked) in the file of people")
