"""Saying something of answers: three lines in whatever shows them to people.

from motet.client.connection import Connection
from motet.client.feedback import Feedback

feedback = Feedback(Connection("http://127.0.0.1:8000", "tml-…"))
feedback.give(answer.id, thumbs="down", correction="Your parcel arrives on Monday.")
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from motet.client.connection import Connection
from motet.errors import BadRequest, NotFound

ROUTE = "/v1/feedback"


@dataclass(frozen=True)
class Imported:
    """What became of a file."""

    lines: int
    new: int
    duplicates: int
    refused: list[str]  # line and reason


class Feedback:
    """Whatever is sent carries an id, so that sending it again after a lost answer counts once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def give(
        self,
        response_id: str,
        *,
        choice: int = 0,
        score: float | None = None,
        thumbs: Literal["up", "down"] | None = None,
        preferred: Mapping[str, Any] | None = None,
        correction: str | Mapping[str, Any] | None = None,
        event: Literal["accepted", "retried", "escalated"] | None = None,
        outcome: Mapping[str, Any] | None = None,
        source: str | None = None,
        comment: str = "",
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,
    ) -> dict[str, Any]:
        """Something of one answer; the fields are those of docs/serving.md. It is on the disk when this returns."""
        said = {"score": score, "thumbs": thumbs, "preferred": preferred, "correction": correction, "event": event}
        said |= {"outcome": outcome, "source": source, "comment": comment or None, "metadata": metadata}
        body = {key: value for key, value in said.items() if value is not None}
        return self.send({"response_id": response_id, "choice": choice, "id": id or uuid4().hex, **body})

    def send(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A body as it is. Give it an `id`, or it may count twice."""
        return self._connection.send("POST", ROUTE, body, once="id" not in body)

    def bring(self, file: Path, name: str | None = None) -> Imported:
        """Past conversations of a JSONL file, one body of POST /v1/feedback a line; again is nothing.

        name: the model of those that name none. BadRequest: a line is no JSON object; nothing after it is sent.
        """
        new, duplicates, refused = 0, 0, list[str]()
        for number, body in _lines(file, name):
            try:
                told = self.send(body)
            except (BadRequest, NotFound) as error:
                refused.append(f"line {number}: {error}")
            else:
                new, duplicates = new + (not told["duplicate"]), duplicates + told["duplicate"]
        return Imported(new + duplicates + len(refused), new, duplicates, refused)


def _lines(file: Path, name: str | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and body of each line that is not empty; its id is what it says."""
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                body = json.loads(line)
            except json.JSONDecodeError as error:
                raise BadRequest(f"{file}, line {number} is no JSON: {error}") from None
            if not isinstance(body, dict):
                raise BadRequest(f"{file}, line {number} is no object: write what POST /v1/feedback takes")
            if isinstance(past := body.get("past"), dict) and name is not None:
                body["past"] = {"model": name, **past}
            digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
            yield number, {"id": f"import-{digest[:40]}", **body}
