"""Examples out of JSONL files, as tokens: the section [data] of an experiment file.

A line is one example. Conversations: `{"messages": [...]}` (every assistant's turn is learned) or `{"prompt",
"completion"}`; pairs: `{"prompt", "chosen", "rejected"}`; judged answers: `{"prompt", "completion", "good"}`. A
prompt is a text (one user's turn) or a list of messages. The tokenizer's chat template is used where it has one, bare
text where it has none. A line of another kind is refused, since an algorithm would learn something else from it than
it says; keys that belong to no kind are passed over.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeGuard, TypeVar

from jinja2 import TemplateError
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
        chat = Chat(tokenizer)
        found = [_example(line, f"{self.path}:{number}", chat, takes) for number, line in _lines(self.path)]
        kept = round(self.held_out * len(found))
        if kept == len(found):
            raise BadConfig(f"{self.path} has no example to learn from")
        return Examples(found[: len(found) - kept], found[len(found) - kept :])


@dataclass(frozen=True)
class Examples(Generic[Example]):
    """Examples to learn from, and some that are never trained on."""

    train: list[Example]
    held_out: list[Example]


def _lines(path: Path) -> list[tuple[int, bytes]]:
    """Those with something in them, with their numbers."""
    if not path.is_file():
        raise BadConfig(f"there is no {path}: set data.path to a file of examples, one JSON object a line")
    try:
        lines = path.read_bytes().removeprefix(BOM_UTF8).split(b"\n")
    except OSError as error:
        raise BadConfig(f"{path} cannot be read: {error}") from None
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _example(line: bytes, place: str, chat: Chat, takes: Takes) -> Any:
    """One example. BadConfig with its place: the line is none."""
    try:
        return _read(json.loads(line.decode("utf-8")), chat, takes)
    except UnicodeDecodeError as error:
        raise BadConfig(f"{place}: no UTF-8 ({error.reason} at byte {error.start} of the line)") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadConfig(f"{place}: no JSON ({error})") from None
    except TemplateError as error:
        raise BadConfig(f"{place}: this model's chat template does not take it: {error}") from None
    except BadConfig as error:
        raise BadConfig(f"{place}: {error}") from None


def _read(record: object, chat: Chat, takes: Takes) -> Any:
    kind = KINDS[takes]
    if not isinstance(record, dict):
        raise BadConfig(f"no JSON object; a line is {kind.line}")
    for other in KINDS.values():
        if foreign := [key for key in other.keys if key in record and key not in kind.keys]:
            told = f'a line with "{foreign[0]}" is {other.name}, which {other.algorithm} learns from'
            raise BadConfig(f"{told}; for {kind.algorithm} a line is {kind.line}")
    if missing := [key for key in kind.keys if key not in record and key != "messages" and "messages" not in record]:
        raise BadConfig(f'"{missing[0]}" is missing; a line is {kind.line}')
    return kind.read(chat, record)


def _conversation(chat: Chat, record: dict[str, Any]) -> Completion:
    if "messages" not in record:
        return _answer(chat, record, "completion")
    messages = _messages(record["messages"])
    if not any(one["role"] == "assistant" for one in messages):
        raise BadConfig("no assistant's turn: nothing is to be learned")
    if messages[0]["role"] == "assistant":
        raise BadConfig("an assistant's turn comes first: put what it answers before it")
    spans = chat.conversation(messages)
    return Completion(spans.tokens, spans.mask)


def _pair(chat: Chat, record: dict[str, Any]) -> Pair:
    return Pair(_answer(chat, record, "chosen"), _answer(chat, record, "rejected"))


def _judged(chat: Chat, record: dict[str, Any]) -> Judged:
    if not isinstance(record["good"], bool):
        raise BadConfig('"good" must be true or false')
    return Judged(_answer(chat, record, "completion"), record["good"])


def _answer(chat: Chat, record: dict[str, Any], key: str) -> Completion:
    """The prompt with one answer; only the answer is learned."""
    prompt, answer = record["prompt"], record[key]
    if not _is_text(answer):
        raise BadConfig(f'"{key}" must be a text')
    messages = [{"role": "user", "content": prompt}] if _is_text(prompt) else _messages(prompt)
    return Completion.of(chat.prompt(messages), chat.answer(answer))


def _messages(told: object) -> list[Message]:
    fine = isinstance(told, list) and all(
        isinstance(one, dict) and _is_text(one.get("role")) and _is_text(one.get("content")) for one in told
    )
    if not fine or not told:
        raise BadConfig('messages must be a list of {"role", "content"}, each a text')
    assert isinstance(told, list)
    return told


def _is_text(value: object) -> TypeGuard[str]:
    """A string, and no half of a character: JSON can write one, and no tokenizer reads it."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


@dataclass(frozen=True)
class Kind:
    """One kind of example: what its lines have, how they are read, and who learns from them."""

    name: str
    line: str
    keys: tuple[str, ...]
    read: Callable[[Chat, dict[str, Any]], Any]
    algorithm: str


KINDS: dict[Takes, Kind] = {
    "conversations": Kind(
        name="a conversation",
        line='{"messages"} or {"prompt", "completion"}',
        keys=("messages", "prompt", "completion"),
        read=_conversation,
        algorithm="sft",
    ),
    "pairs": Kind(
        name="a pair",
        line='{"prompt", "chosen", "rejected"}',
        keys=("prompt", "chosen", "rejected"),
        read=_pair,
        algorithm="dpo",
    ),
    "judged": Kind(
        name="a judged answer",
        line='{"prompt", "completion", "good"}',
        keys=("prompt", "completion", "good"),
        read=_judged,
        algorithm="kto",
    ),
}
