"""What every call format offers, and the call it reads out of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from motet.lab.envs.problems import Problem


@dataclass(frozen=True)
class Call:
    """The policy asks for a tool: `Calculator` or `FinalAnswer`, with one argument as it wrote it."""

    tool: str
    argument: str


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
