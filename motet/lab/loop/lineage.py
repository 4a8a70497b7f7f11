"""Which version came of which training, and what somebody's deletion makes of it: all from the server's records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Training:
    """A claim of the loop's own name. The lists hold what is left of its items."""

    id: str
    key: str
    state: Literal["open", "done", "abandoned"]
    parent: str | None
    path: str | None
    version: int | None
    items: list[int]
    replayed: list[int]
    held_out: list[int]
    lost: int  # items that it learned from, or would have, and that are deleted
    recipe: dict[str, Any]

    @classmethod
    def of(cls, told: dict[str, Any]) -> Training:
        counts = told["counts"]
        lost = counts["item"] + counts["replayed"] - len(told["items"]) - len(told["replayed"])
        same = ("key", "state", "parent", "path", "version", "items", "replayed", "held_out", "recipe")
        return cls(id=told["training"], lost=lost, **{key: told[key] for key in same})

    @property
    def learned(self) -> list[int]:
        """Numbers of all that it learns from."""
        return sorted([*self.items, *self.replayed])


@dataclass(frozen=True)
class Rebuild:
    """An adapter must be made again: `left` of what it learned, from the last version that nobody was deleted from."""

    parent: str | None
    left: list[int]
    paths: list[str]  # of what must not serve any more, oldest first


def ancestry(trainings: Sequence[Training], path: str | None) -> Iterator[Training]:
    """The trainings that a checkpoint came of, newest first."""
    by_path = {one.path: one for one in trainings if one.path is not None}
    while path is not None and (found := by_path.get(path)) is not None:
        yield found
        path = found.parent


def learned_by(trainings: Sequence[Training], path: str | None) -> list[int]:
    """Numbers of the items that a checkpoint came of: what was refused or taken back is not among them."""
    return sorted({number for one in ancestry(trainings, path) for number in one.learned})


def held_out_of(trainings: Sequence[Training], path: str | None) -> list[int]:
    """Numbers of the items that a checkpoint's rounds have kept for measuring; of rounds that were made again, too."""
    chain = list(ancestry(trainings, path))
    again = {path for one in chain for path in one.recipe.get("rebuild", ())}
    kept = [*chain, *(one for one in trainings if one.path in again)]
    return sorted({number for one in kept for number in one.held_out})


def rebuild_of(trainings: Sequence[Training], path: str) -> Rebuild | None:
    """What is to be done about a checkpoint; None: all that it learned from is still there."""
    chain = list(ancestry(trainings, path))
    oldest = max((place for place, one in enumerate(chain) if one.lost), default=None)
    if oldest is None:
        return None
    spoilt = chain[: oldest + 1]
    left = sorted({number for one in spoilt for number in one.learned})
    return Rebuild(spoilt[-1].parent, left, [str(one.path) for one in reversed(spoilt)])
