"""What was said of an answer: one item of feedback."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from motet.service.feedback.answers import Row

SAID = ("score", "thumbs", "preferred", "correction", "event", "outcome")


@dataclass(frozen=True)
class Past:
    """A conversation of elsewhere, and what answered it."""

    model: str
    messages: list[dict[str, Any]]  # the last one is the answer
    tools: list[dict[str, Any]]
    user: str | None
    conversation: str | None


@dataclass(frozen=True)
class Offer:
    """Feedback as it arrives. Of response_id and past one is given."""

    id: str  # the client's, or made up
    response_id: str | None
    past: Past | None
    choice: int
    source: str | None
    said: dict[str, Any]  # SAID, comment, metadata: those that were given
    digest: str  # of the request

    @property
    def preferred_answer(self) -> str | None:
        """Another answer that it prefers, by its id."""
        preferred = self.said.get("preferred") or {}
        found: str | None = preferred.get("response_id")
        return found

    @property
    def preferred_choice(self) -> int | None:
        found: int | None = (self.said.get("preferred") or {}).get("choice")
        return found


@dataclass(frozen=True)
class Receipt:
    """That an item is on the disk."""

    id: str
    number: int
    answer: str
    time: str
    duplicate: bool  # it was there before
    quarantine: str | None


def digest_of(value: Any) -> str:
    """The same for the same JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def receipt(row: Row, duplicate: bool) -> Receipt:
    time = row["time"].replace(tzinfo=UTC).isoformat()
    return Receipt(row["id"], row["number"], row["answer"], time, duplicate, row["quarantine"])


def told(row: Row) -> dict[str, Any]:
    """An item as it is read."""
    same = ("number", "id", "name", "version", "source", "quarantine", "training")
    said = {**dict.fromkeys(SAID), "comment": "", "metadata": {}, "choice": 0, **row["said"]}
    time = row["time"].replace(tzinfo=UTC).isoformat()
    return {**{key: row[key] for key in same}, "time": time, "response_id": row["answer"], **said}
