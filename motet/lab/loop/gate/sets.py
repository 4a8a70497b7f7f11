"""Questions, and how an answer is scored: by its likeness to what it should be, or by rules."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from motet.chat.template import Message
from motet.errors import BadConfig
from motet.lab.loop.items import Item

SAFETY = Path(__file__).parent / "safety.jsonl"
LINE = '{"prompt" or "messages", and "answer", "must" or "never" (regular expressions)}'


@dataclass(frozen=True)
class Question:
    """What is asked, and what is known of a good answer."""

    messages: list[Message]
    tools: list[Message]
    answer: str | None = None  # what it should be
    must: str | None = None  # regular expressions over the whole answer, whatever its case
    never: str | None = None

    def score(self, text: str) -> float:
        """0 to 1."""
        if self.must is not None and not re.search(self.must, text, re.IGNORECASE):
            return 0.0
        if self.never is not None and re.search(self.never, text, re.IGNORECASE):
            return 0.0
        return 1.0 if self.answer is None else likeness(text, self.answer)


def likeness(text: str, wanted: str) -> float:
    """Of two texts, word by word and sign by sign, 0 to 1: twice what they share in order by what they have."""
    said, meant = (re.findall(r"\w+|[^\w\s]", one.casefold()) for one in (text, wanted))
    return SequenceMatcher(a=said, b=meant, autojunk=False).ratio()


def held_out(items: list[Item]) -> list[Question]:
    """Of items that say how it should have been."""
    return [Question(one.messages, one.tools, one.better) for one in items if one.better is not None]


def read_set(file: Path) -> list[Question]:
    """A set of a JSONL file. BadConfig names the line that is no question."""
    if not file.is_file():
        raise BadConfig(f"there is no set of questions {file}: write a line {LINE} a question")
    lines = file.read_text(encoding="utf-8").splitlines()
    return [_question(line, f"{file}:{number}") for number, line in enumerate(lines, 1) if line.strip()]


def _question(line: str, place: str) -> Question:
    try:
        told: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise BadConfig(f"{place}: no JSON ({error})") from None
    known = {"prompt", "messages", "tools", "answer", "must", "never"}
    if not isinstance(told, dict) or set(told) - known or not {"answer", "must", "never"} & set(told):
        raise BadConfig(f"{place}: a line is {LINE}")
    prompt = told.get("messages", told.get("prompt"))
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if not isinstance(messages, list) or not messages:
        raise BadConfig(f'{place}: it asks nothing; write "prompt" or "messages"')
    for key in ("must", "never"):
        try:
            re.compile(told.get(key) or "")
        except re.error as error:
            raise BadConfig(f"{place}: {key} is no regular expression ({error})") from None
    return Question(messages, told.get("tools", []), told.get("answer"), told.get("must"), told.get("never"))
