"""Tool calls, read out of what a policy wrote: the forms that chat templates of the supported families teach.

<tool_call>{"name": ..., "arguments": {...}}</tool_call>     Qwen2.5, Qwen3, Hermes, SmolLM2 (also as a list)
{"name": ..., "parameters": {...}}                           Llama 3
<function=...><parameter=...>...</parameter></function>      Qwen3-Coder, Nemotron 3; values are text
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from motet.chat.template import Message
from motet.chat.thoughts import spoken

MOST_CALLS = 32  # in one turn
MOST_STARTS = 64  # brackets that lead nowhere, before the rest of a turn is taken for words
DEEPEST = "[" * 32
FUNCTION, FUNCTION_END = "<function=", "</function>"
PARAMETER, PARAMETER_END = "<parameter=", "</parameter>"


@dataclass(frozen=True)
class ToolCall:
    """The policy asks for a tool, with arguments as it wrote them."""

    name: str
    arguments: dict[str, Any]

    def told(self, call_id: str) -> Message:
        """As it stands in an assistant's message."""
        return {"id": call_id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


def read_calls(text: str) -> list[ToolCall]:
    """All calls of a turn, in order: what was only thought of is none, and nothing is executed or evaluated."""
    text = spoken(text)
    if FUNCTION in text and (tagged := list(islice(_tagged(text), MOST_CALLS))):
        return tagged
    found: list[ToolCall] = []
    for value in _objects(text):
        found += [call for one in (value if isinstance(value, list) else [value]) if (call := _as_call(one))]
        if len(found) >= MOST_CALLS:
            break
    return found[:MOST_CALLS]


def _tagged(text: str) -> Iterator[ToolCall]:
    """Calls in tags, from left to right; one that is not closed is none."""
    for piece in text.split(FUNCTION)[1:]:
        body, closed, _ = piece.partition(FUNCTION_END)
        name, named, rest = body.partition(">")
        if closed and named:
            yield ToolCall(name.strip(), dict(_parameters(rest)))


def _parameters(body: str) -> Iterator[tuple[str, str]]:
    """Names and values; the line break that stands before and after a value is no part of it."""
    for piece in body.split(PARAMETER)[1:]:
        name, named, rest = piece.partition(">")
        value, closed, _ = rest.partition(PARAMETER_END)
        if named and closed:
            yield name.strip(), value.removeprefix("\n").removesuffix("\n")


def _objects(text: str) -> Iterator[Any]:
    """JSON objects and lists of objects in a text, from left to right, the outermost ones."""
    decoder, place, wasted = json.JSONDecoder(), 0, 0
    while wasted < MOST_STARTS and (start := _next_start(text, place)) >= 0:
        if text.startswith(DEEPEST, start):  # no call nests like that, and reading it would take long
            return
        try:
            value, place = decoder.raw_decode(text, start)
        except (json.JSONDecodeError, RecursionError):
            place, wasted = start + 1, wasted + 1
        else:
            yield value


def _next_start(text: str, place: int) -> int:
    starts = [at for at in (text.find("{", place), text.find("[", place)) if at >= 0]
    return min(starts, default=-1)


def _as_call(found: Any) -> ToolCall | None:
    if not isinstance(found, dict):
        return None
    name, arguments = found.get("name"), found.get("arguments", found.get("parameters", {}))
    if isinstance(arguments, str):  # OpenAI's form: JSON within JSON
        try:
            arguments = json.loads(arguments)
        except (json.JSONDecodeError, RecursionError):
            return None
    return ToolCall(name, arguments) if isinstance(name, str) and isinstance(arguments, dict) else None
