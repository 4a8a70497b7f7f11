"""Plain-line calls, which small models manage: one call a line, each ended by its bracket.

    Ann has 23 apples. Ann buys 18 more. How many apples does Ann have now?
    Calculator[23+18]
    Result: 41
    FinalAnswer[41]

The policy writes `Calculator[23+18]`; `Result: 41` is inserted. A turn ends with the first bracket or
line end. A token may hold both (`]` and the newline), so the newline is inserted only where it is missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from motet.chat.template import encode
from motet.lab.envs.calculator import evaluate, show_number
from motet.lab.envs.formats.base import Call
from motet.lab.envs.problems import Problem

INSTRUCTIONS = "Solve the problem. Write Calculator[expression] to compute, then FinalAnswer[number]."
_CALL = re.compile(r"(Calculator|FinalAnswer)\[([^\[\]\n]*)\]")


@dataclass(frozen=True)
class Segment:
    """A piece of text that is tokenized by itself, and whether the policy is the one who writes it."""

    text: str
    written: bool


class PlainFormat:
    """Uses the tokenizer's chat template where it has one, and bare text where it has none."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        end = [str(tokenizer.eos_token)] if tokenizer.eos_token else []
        self.stop: Sequence[str] = ["]", "\n", *end]

    def prompt(self, question: str, examples: Sequence[Problem]) -> list[int]:
        if self._tokenizer.chat_template is None:
            worked = "".join(f"{one.question}\n{_solution_text(one)}\n\n" for one in examples)
            return [int(t) for t in self._tokenizer.encode(f"{worked}{question}\n")]  # after its BOS, if any
        messages = [{"role": "system", "content": INSTRUCTIONS}]
        for one in examples:
            messages.append({"role": "user", "content": one.question})
            messages.append({"role": "assistant", "content": _solution_text(one)})
        messages.append({"role": "user", "content": question})
        text = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return encode(self._tokenizer, str(text))

    def read_call(self, text: str) -> Call | None:
        found = _CALL.search(text)
        return Call(found[1], found[2]) if found else None

    def result(self, written: str, value: str) -> list[int]:
        newline = "" if written.endswith("\n") else "\n"
        return encode(self._tokenizer, f"{newline}Result: {value}\n")


def solution(problem: Problem) -> list[Segment]:
    """A worked solution in pieces, cut exactly where the environment cuts."""
    pieces = []
    for step in problem.steps:
        pieces.append(Segment(f"Calculator[{step}]", written=True))
        pieces.append(Segment(f"\nResult: {show_number(evaluate(step))}\n", written=False))
    return [*pieces, Segment(f"FinalAnswer[{show_number(problem.answer)}]", written=True)]


def _solution_text(problem: Problem) -> str:
    return "".join(piece.text for piece in solution(problem))
