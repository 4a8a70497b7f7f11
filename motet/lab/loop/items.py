"""Items of feedback as the server tells them, and what each of them has to teach."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from motet.chat.template import Message

Kind = Literal["correction", "pair", "verdict"]
EVENTS = {"accepted": 1.0, "retried": -1.0, "escalated": -1.0}
THUMBS = {"up": 1.0, "down": -1.0}


@dataclass(frozen=True)
class Item:
    """One item with the answer that it is about."""

    number: int
    time: str
    source: str | None
    version: int | None  # that wrote the answer
    messages: list[Message]  # the answer is not among them
    tools: list[Message]
    text: str  # the answer
    read: list[int] = field(default_factory=list)  # tokens; empty where the record keeps none
    written: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)  # of `written`, by the version that wrote
    correction: str | None = None
    preferred: str | None = None
    score: float | None = None  # thumbs, scores, events and outcomes as one number; the surest of them
    good: bool | None = None  # thumbs or an event said so

    @property
    def kind(self) -> Kind:
        """An item teaches one thing: the most that it says."""
        if self.correction is not None:
            return "correction"
        return "pair" if self.preferred is not None else "verdict"

    @property
    def better(self) -> str | None:
        """What the answer should have been, where somebody has said it."""
        return self.correction if self.correction is not None else self.preferred

    @property
    def prompt(self) -> str:
        """The same for everybody who asked the same: a digest."""
        told = json.dumps([self.messages, self.tools], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()

    def was_good(self, above: float) -> bool:
        """Of any item: an answer that somebody has corrected, or to which another one was preferred, was not."""
        return self.better is None and self.is_good(above)

    def is_good(self, above: float) -> bool:
        """Of a verdict. above: the score that is not yet a good one."""
        return self.good if self.good is not None else (self.score or 0.0) > above


def read_items(told: Sequence[dict[str, Any]]) -> list[Item]:
    """Those that are about an answer in a conversation and say something of it that can be learned."""
    found = [_item(one) for one in told if one.get("answer") and one["answer"]["kind"] != "text"]
    return [one for one in found if one is not None]


def _item(told: dict[str, Any]) -> Item | None:
    record = told["answer"]
    choice = _choice(record, told["choice"])
    assert choice is not None, "the server takes no feedback to a choice that is not there"
    outcome, score = told["outcome"], told["score"]
    good = THUMBS.get(told["thumbs"]) or EVENTS.get(told["event"])
    if outcome is not None:
        score = outcome["score"]
    item = Item(
        number=told["number"],
        time=told["time"],
        source=told["source"],
        version=told["version"],
        messages=[_message(one) for one in record["request"]["messages"]],
        tools=record["request"].get("tools") or [],
        text=choice["text"],
        read=record["prompt_tokens"],
        written=choice["tokens"],
        logprobs=choice["logprobs"],
        correction=_corrected(told["correction"]),
        preferred=_preferred(told["preferred"], record),
        score=good if score is None else score,
        good=None if good is None or score is not None else good > 0,
    )
    says = (item.correction, item.preferred, item.score)
    return item if any(one is not None for one in says) else None


def _message(told: dict[str, Any]) -> Message:
    """As chat templates take it: the content a text, the arguments of calls as objects."""
    content = told.get("content") or ""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content)
    message = {key: told[key] for key in ("role", "name", "tool_call_id") if told.get(key)} | {"content": content}
    if told.get("tool_calls"):
        calls = [one["function"] for one in told["tool_calls"]]
        functions = [{"name": one["name"], "arguments": json.loads(one["arguments"])} for one in calls]
        message["tool_calls"] = [{"type": "function", "function": one} for one in functions]
    return message


def _choice(record: dict[str, Any], index: int) -> dict[str, Any] | None:
    return next((one for one in record["choices"] if one.get("index", 0) == index), None)


def _corrected(correction: str | dict[str, Any] | None) -> str | None:
    """As a text; calls in the form that Qwen, Hermes and SmolLM2 are taught."""
    if not isinstance(correction, dict):
        return correction
    parts = [correction.get("content") or ""]
    for call in correction["tool_calls"]:
        told = {"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])}
        parts.append(f"<tool_call>\n{json.dumps(told, ensure_ascii=False)}\n</tool_call>")
    return "\n".join(part for part in parts if part)


def _preferred(preferred: dict[str, Any] | None, record: dict[str, Any]) -> str | None:
    """Its text. (Where it is another answer's, `gather` has put that text in its place.)"""
    if not preferred:
        return None
    if preferred.get("text") is not None:
        return str(preferred["text"])
    better = None if preferred.get("response_id") else _choice(record, preferred.get("choice") or 0)
    return None if better is None else str(better["text"])
