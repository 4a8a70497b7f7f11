"""Examples out of JSONL files, as tokens: the section [data] of an experiment file.

A line is one example. Conversations: `{"messages": [...]}` (every assistant's turn is learned) or `{"prompt",
"completion"}`; pairs: `{"prompt", "chosen", "rejected"}`; judged answers: `{"prompt", "completion", "good"}`. A
prompt is a text (one user's turn) or a list of messages. The tokenizer's chat template is used where it has one, bare
text where it has none.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from transformers import PreTrainedTokenizerBase

from motet.chat.template import Chat, Message
from motet.errors import BadConfig
from motet.lab.algorithms.base import Takes
from motet.lab.algorithms.examples import Completion, Judged, Pair

Example = TypeVar("Example")


class DataSettings(BaseModel):
    """Where examples are, and which of them are kept for measuring."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    path: Path = Field(strict=False)
    held_out: float = Field(default=0.1, ge=0, lt=1)  # the part at the file's end

    def read(self, takes: Takes, tokenizer: PreTrainedTokenizerBase) -> Examples[Any]:
        """All examples of the file. BadConfig: no such file, or a line that is none."""
        readers: dict[Takes, Callable[[Chat, dict[str, Any]], Any]] = {
            "conversations": _conversation,
            "pairs": _pair,
            "judged": _judged,
        }
        chat, read = Chat(tokenizer), readers[takes]
        found = [_example(line, f"{self.path}:{number}", chat, read) for number, line in _lines(self.path)]
        kept = round(self.held_out * len(found))
        if kept == len(found):
            raise BadConfig(f"{self.path} has no example to learn from")
        return Examples(found[: len(found) - kept], found[len(found) - kept :])


@dataclass(frozen=True)
class Examples(Generic[Example]):
    """Examples to learn from, and some that are never trained on."""

    train: list[Example]
    held_out: list[Example]


def _lines(path: Path) -> list[tuple[int, str]]:
    if not path.is_file():
        raise BadConfig(f"there is no {path}: set data.path to a file of examples, one JSON object a line")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} cannot be read: {error}") from None
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _example(line: str, place: str, chat: Chat, read: Callable[[Chat, dict[str, Any]], Example]) -> Example:
    try:
        record = json.loads(line)
        if not isinstance(record, dict):
            raise BadConfig("no JSON object")
        return read(chat, record)
    except json.JSONDecodeError as error:
        raise BadConfig(f"{place}: no JSON ({error})") from None
    except BadConfig as error:
        raise BadConfig(f"{place}: {error}") from None


def _conversation(chat: Chat, record: dict[str, Any]) -> Completion:
    if "messages" in record:
        messages = _messages(record["messages"])
        if not any(one["role"] == "assistant" for one in messages):
            raise BadConfig("no assistant's turn: nothing is to be learned")
        spans = chat.conversation(messages)
        return Completion(spans.tokens, spans.mask)
    return _answer(chat, record, "completion")


def _pair(chat: Chat, record: dict[str, Any]) -> Pair:
    return Pair(_answer(chat, record, "chosen"), _answer(chat, record, "rejected"))


def _judged(chat: Chat, record: dict[str, Any]) -> Judged:
    if not isinstance(record.get("good"), bool):
        raise BadConfig('"good" must be true or false')
    return Judged(_answer(chat, record, "completion"), record["good"])


def _answer(chat: Chat, record: dict[str, Any], key: str) -> Completion:
    """The prompt with one answer; only the answer is learned."""
    prompt, answer = record.get("prompt"), record.get(key)
    if not isinstance(answer, str):
        raise BadConfig(f'"{key}" must be a text')
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else _messages(prompt)
    return Completion.of(chat.prompt(messages), chat.answer(answer))


def _messages(told: object) -> list[Message]:
    fine = isinstance(told, list) and all(
        isinstance(one, dict) and isinstance(one.get("role"), str) and isinstance(one.get("content"), str)
        for one in told
    )
    if not fine or not told:
        raise BadConfig('messages must be a list of {"role", "content"}')
    assert isinstance(told, list)
    return told
