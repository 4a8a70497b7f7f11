"""Names in service: bring a version, promote it, take it back, pin it, give a candidate some traffic."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from motet.client.connection import Connection

ROUTE = "/motet/v1/serving"


class Names:
    """Each method gives the name as it is afterwards (docs/serving.md). `by`: who does it, for the history."""

    def __init__(self, connection: Connection, by: str = "") -> None:
        self._connection = connection
        self._by = by

    def all(self) -> list[dict[str, Any]]:
        """Every name of the caller."""
        names: list[dict[str, Any]] = self._connection.send("GET", ROUTE)["names"]
        return names

    def show(self, name: str) -> dict[str, Any]:
        """What serves, its versions, its history. NotFound."""
        return self._connection.send("GET", _of(name))

    def bring(self, name: str, path: str, about: str = "", training: str | None = None) -> dict[str, Any]:
        """A sampler checkpoint becomes the candidate; of a new name it serves at once."""
        body = {"path": path, "about": about, "training": training, "by": self._by}
        return self._connection.send("POST", _of(name, "versions"), body)

    def promote(self, name: str, version: int, reason: str = "") -> dict[str, Any]:
        """It serves from the next request on."""
        return self._do(name, "promote", reason, version=version)

    def rollback(self, name: str, reason: str = "") -> dict[str, Any]:
        """The version before serves again."""
        return self._do(name, "rollback", reason)

    def pin(self, name: str, version: int | None, reason: str = "") -> dict[str, Any]:
        """It serves whatever is promoted; None takes the pin away."""
        return self._do(name, "pin", reason, version=version)

    def canary(self, name: str, share: float, reason: str = "") -> dict[str, Any]:
        """The candidate takes a share of the traffic."""
        return self._do(name, "canary", reason, share=share)

    def diff(self, name: str, before: int, after: int) -> dict[str, Any]:
        """Two versions side by side."""
        return self._connection.send("GET", _of(name, "diff"), query={"before": before, "after": after})

    def _do(self, name: str, what: str, reason: str, **more: Any) -> dict[str, Any]:
        body = {"reason": reason, "by": self._by, **more}
        return self._connection.send("POST", _of(name, what), body, once=what == "rollback")


def _of(name: str, what: str = "") -> str:
    return f"{ROUTE}/{quote(name, safe='')}" + (f"/{what}" if what else "")
