"""A training of a name in service: what it claimed, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from motet.service.feedback.answers import Row

State = Literal["open", "done", "abandoned"]
ROLES = ("item", "replayed", "held_out")
CLAIMING = ("item", "held_out")  # an item is in one training at most as one of these


@dataclass(frozen=True)
class Plan:
    """What a client means to train on."""

    key: str  # the client's: the same one gives the same training
    name: str
    parent: str | None  # a checkpoint; None: the base model
    recipe: dict[str, Any]
    items: list[int]
    replayed: list[int]
    held_out: list[int]
    digest: str

    def roles(self) -> dict[int, str]:
        """By number of an item."""
        by_role = dict(zip(ROLES, (self.items, self.replayed, self.held_out), strict=True))
        return {number: role for role in ROLES for number in by_role[role]}


def told(row: Row, lineage: Iterable[Row]) -> dict[str, Any]:
    """A training as it is read, with what is left of its items."""
    kept: dict[str, list[int]] = {role: [] for role in ROLES}
    counts = dict.fromkeys((*ROLES, "forgotten"), 0)
    for one in sorted(lineage, key=lambda one: int(one["feedback"])):
        counts[one["role"]] += 1
        counts["forgotten"] += one["forgotten"] is not None
        if one["forgotten"] is None:
            kept[one["role"]].append(one["feedback"])
    same = ("key", "name", "state", "parent", "recipe", "path", "version", "reason")
    times = {key: _iso(row[key]) for key in ("opened", "closed")}
    items = {"items": kept["item"], "replayed": kept["replayed"], "held_out": kept["held_out"]}
    return {"training": row["id"], **{key: row[key] for key in same}, **times, "counts": counts, **items}


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.replace(tzinfo=UTC).isoformat()
