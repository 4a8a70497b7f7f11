"""What there is to learn, whether it is time, and what a round claims of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

from motet.client.records import Records
from motet.errors import NotFound
from motet.lab.loop.items import Item, read_items
from motet.lab.loop.settings import Learn, Policy, When

SCALE = 2**64


@dataclass(frozen=True)
class Claim:
    """What a round takes: numbers of items."""

    items: list[int] = field(default_factory=list)
    replayed: list[int] = field(default_factory=list)
    held_out: list[int] = field(default_factory=list)


class Desk:
    """Feedback to one name, read from the server."""

    def __init__(self, records: Records, policy: Policy) -> None:
        self._records = records
        self._policy = policy

    def free(self) -> list[Item]:
        """What nobody has claimed, is not in quarantine and teaches something under this policy; oldest first."""
        found = self._records.feedback(name=self._policy.name, free=True, quarantined=False, answers=True)
        return [one for one in self._read(found) if teaches(one, self._policy.learn)]

    def said(self, after: int) -> list[Item]:
        """All that was said after an item, whoever has it."""
        return self._read(self._records.feedback(after, name=self._policy.name, quarantined=False, answers=True))

    def these(self, numbers: Sequence[int]) -> list[Item]:
        """Items by their numbers; one that was deleted is not among them."""
        wanted = set(numbers)
        if not wanted:
            return []
        found = []
        for told in self._records.feedback(min(wanted) - 1, name=self._policy.name, answers=True):
            if told["number"] > max(wanted):
                break
            if told["number"] in wanted:
                found.append(told)
        return self._read(found)

    def _read(self, told: Any) -> list[Item]:
        return read_items([self._with_better(one) for one in told])

    def _with_better(self, told: dict[str, Any]) -> dict[str, Any]:
        """Another answer that is preferred, as its text; one that is not kept any more says nothing."""
        preferred = told["preferred"] or {}
        if preferred.get("response_id") is None:
            return told
        try:
            better = self._records.answer(preferred["response_id"])
        except NotFound:
            return {**told, "preferred": None}
        index = preferred.get("choice") or 0
        text = next((one["text"] for one in better["choices"] if one["index"] == index), None)
        return {**told, "preferred": None if text is None else {"text": text}}


def teaches(item: Item, learn: Learn) -> bool:
    """Has this policy a use for it?"""
    return {"correction": learn.corrections, "pair": learn.pairs, "verdict": learn.verdicts}[item.kind] != "off"


def is_due(free: Sequence[Item], when: When, now: datetime | None = None) -> bool:
    """Is it time for a round?"""
    if len(free) >= when.items:
        return True
    if len(free) < when.least:
        return False
    oldest = datetime.fromisoformat(min(one.time for one in free))
    return ((now or datetime.now(UTC)) - oldest).total_seconds() >= 60 * when.minutes


def claim_of(free: Sequence[Item], older: Sequence[int], policy: Policy, number: int) -> Claim:
    """A round's claim: the oldest items, those of held-out prompts apart, and some of `older`, by their numbers."""
    taken = free[: policy.when.most]
    held_out = [one.number for one in taken if is_held_out(one, policy)]
    items = [one.number for one in taken if not is_held_out(one, policy)]
    count = min(round(policy.replay.share * len(items)), len(older))
    replayed = sorted(Random(f"{policy.seed}/{number}").sample(older, count))
    return Claim(items, replayed, held_out)


def is_held_out(item: Item, policy: Policy) -> bool:
    """By its prompt alone, so that a question that is kept for measuring is never learned in another round."""
    chance = int(Random(f"{policy.seed}/{item.prompt}").getrandbits(64))
    return chance < policy.when.held_out * SCALE
