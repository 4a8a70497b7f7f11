"""Who decides: about a candidate before anybody meets it, about a candidate in live use, about feedback itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from motet.lab.loop.items import Item


@dataclass(frozen=True)
class Verdict:
    """A decision and why, in one sentence for the history."""

    promote: bool
    reason: str
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Sides:
    """Two versions by their checkpoints."""

    before: str  # tinker://…, what serves
    after: str  # the candidate


@dataclass(frozen=True)
class Doubt:
    """Items that nobody should learn from, and why."""

    items: list[int]
    reason: str


class Judges(Protocol):
    """What a round asks."""

    async def gate(self, sides: Sides, items: Sequence[Item]) -> Verdict:
        """By held-out items: is the candidate better on what it should have learned, and no worse elsewhere?"""
        ...

    def canary(self, before: Sequence[Item], after: Sequence[Item], minutes: float) -> Verdict | None:
        """By live feedback to both, `minutes` long; None: it goes on."""
        ...

    def doubts(self, items: Sequence[Item]) -> list[Doubt]:
        """Which of them contradict the rest."""
        ...
