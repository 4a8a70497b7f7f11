"""What every call format offers, and the call it reads out of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from transformers import PreTrainedTokenizerBase

from motet.lab.envs.problems import Problem


@dataclass(frozen=True)
class Call:
    """The policy asks for a tool: `Calculator` or `FinalAnswer`, with one argument as it wrote it."""

    tool: str
    argument: str


def encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The tokens of exactly this text: nothing is put before or after it."""
    return [int(token) for token in tokenizer.encode(text, add_special_tokens=False)]


class Format(Protocol):
    """How a problem is posed, how a call is written, how a result comes back. Tokens in, tokens out."""

    stop: Sequence[str]  # strings that end a turn and are included in it; empty: the end tokens do

    def prompt(self, question: str, examples: Sequence[Problem]) -> list[int]:
        """The tokens that pose a question, after some worked examples."""
        ...

    def read_call(self, text: str) -> Call | None:
        """The call in what the policy wrote in one turn; None when there is none."""
        ...

    def result(self, written: str, value: str) -> list[int]:
        """The tokens to insert after a turn (`written` is its text) so that the policy reads `value`."""
        ...
