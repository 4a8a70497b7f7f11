"""What was answered and said, for whoever learns from it; claims of items; a person's data deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from motet.client.connection import Connection

PAGE = 200


class Records:
    """The routes of docs/serving.md, with their JSON as it is."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def answers(self, after: int = 0, **which: Any) -> Iterator[dict[str, Any]]:
        """Records in their order, all there are now; `which`: name, version, user."""
        yield from self._pages("/motet/v1/answers", "answers", after, which)

    def answer(self, response_id: str) -> dict[str, Any]:
        """One record. NotFound."""
        return self._connection.send("GET", f"/motet/v1/answers/{quote(response_id, safe='')}")

    def feedback(self, after: int = 0, **which: Any) -> Iterator[dict[str, Any]]:
        """Items in their order, all there are now; `which`: name, version, response_id, free, quarantined, answers."""
        yield from self._pages("/motet/v1/feedback", "items", after, which)

    def quarantine(self, items: Sequence[int], reason: str | None) -> None:
        """No training takes these; None lets them out."""
        self._connection.send("POST", "/motet/v1/feedback/quarantine", {"items": list(items), "reason": reason})

    def claim(
        self,
        key: str,
        name: str,
        parent: str | None,
        items: Sequence[int],
        replayed: Sequence[int] = (),
        held_out: Sequence[int] = (),
        recipe: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """A training that has these items and nobody else has. The same key gives the same training."""
        body = {"key": key, "name": name, "parent": parent, "items": list(items), "recipe": dict(recipe or {})}
        more = {"replayed": list(replayed), "held_out": list(held_out)}
        return self._connection.send("POST", "/motet/v1/trainings", body | more)

    def trainings(
        self, name: str | None = None, state: Literal["open", "done", "abandoned"] | None = None
    ) -> list[dict[str, Any]]:
        """Oldest first."""
        query = {"name": name, "state": state}
        found: list[dict[str, Any]] = self._connection.send("GET", "/motet/v1/trainings", query=query)["trainings"]
        return found

    def training(self, training: str) -> dict[str, Any]:
        """One of them. NotFound."""
        return self._connection.send("GET", f"/motet/v1/trainings/{training}")

    def close(self, training: str, path: str | None, reason: str = "") -> dict[str, Any]:
        """It gave a checkpoint; None: it was given up, and its items are free again."""
        return self._connection.send("POST", f"/motet/v1/trainings/{training}/close", {"path": path, "reason": reason})

    def forget(self, user: str) -> dict[str, Any]:
        """Delete a person's data; tells who learned from it."""
        return self._connection.send("DELETE", f"/motet/v1/people/{quote(user, safe='')}")

    def _pages(self, route: str, what: str, after: int, which: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        while True:
            page = self._connection.send("GET", route, query={"after": after, "limit": PAGE, **which})
            yield from page[what]
            if not page[what]:
                return
            after = page["next"]
