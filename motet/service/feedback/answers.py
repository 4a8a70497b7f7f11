"""An answer that was given, as it is recorded: what is looked for stands in columns, what was said is packed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import zstandard

from motet.service.feedback.redaction import Redaction

Kind = Literal["chat", "text", "past"]
Row = dict[str, Any]
LEVEL = 3
ABOUT = ("kind", "model", "path", "canary", "conversation", "seconds", "first_token_seconds")


@dataclass(frozen=True, eq=False)
class Given:
    """An answer. `content` is made off the answer's way: {request, prompt_tokens, choices}."""

    tenant: str
    id: str
    kind: Kind
    model: str  # as the answer told it: support@v12
    content: Callable[[], dict[str, Any]]
    name: str | None = None  # in service
    version: int | None = None
    path: str | None = None
    canary: bool = False  # a canary's share chose it
    user: str | None = None
    conversation: str | None = None
    seconds: float | None = None
    first_token_seconds: float | None = None  # of a stream


def packed(given: Given, redaction: Redaction, time: datetime) -> Row:
    """Its row, but for the number. What a pattern touched keeps no tokens: they would spell it out."""
    content = given.content()
    shown = redaction.value(content)
    redacted = shown != content
    if redacted:
        shown["prompt_tokens"] = []
        shown["choices"] = [{**choice, "tokens": [], "logprobs": []} for choice in shown["choices"]]
    about = {key: getattr(given, key) for key in ABOUT} | {"redacted": redacted, "choice_count": len(shown["choices"])}
    data = zstandard.compress(json.dumps(shown, separators=(",", ":")).encode(), LEVEL)
    row = {"tenant": given.tenant, "id": given.id, "name": given.name, "version": given.version, "user": given.user}
    return {**row, "time": time, "about": about, "content": data, "size": len(data), "judged": False}


def unpacked(row: Row) -> dict[str, Any]:
    """A record as it is told."""
    about = {key: row["about"][key] for key in (*ABOUT, "redacted")}
    plain = {key: row[key] for key in ("number", "id", "name", "version", "user", "judged")}
    told = {**plain, "time": row["time"].replace(tzinfo=UTC).isoformat(), **about}
    return told | json.loads(zstandard.decompress(row["content"]))
