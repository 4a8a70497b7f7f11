"""Feedback that contradicts the rest: of the same question, others agree on something else.

Several sources must have said the same of a question before anybody contradicts them, and they must be more than those
who say something else. Whoever says much that contradicts is doubted altogether.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from motet.lab.loop.gate.sets import likeness
from motet.lab.loop.items import Item
from motet.lab.loop.judges import Doubt
from motet.lab.loop.settings import Quarantine


def doubts(items: Sequence[Item], quarantine: Quarantine, good: float) -> list[Doubt]:
    """What nobody should learn from; no item stands in two of them."""
    asked: defaultdict[str, list[Item]] = defaultdict(list)
    for one in items:
        asked[one.prompt].append(one)
    against = sorted({one.number for same in asked.values() for one in _outvoted(same, quarantine, good)})
    given: defaultdict[str | None, list[int]] = defaultdict(list)
    for one in items:
        given[one.source].append(one.number)
    found, taken = list[Doubt](), set[int]()
    for source, numbers in given.items():
        wrong = [number for number in numbers if number in against]
        if source is not None and len(wrong) >= 2 and len(wrong) / len(numbers) >= quarantine.source_share:
            found.append(Doubt(numbers, f"{len(wrong)} of {len(numbers)} items of this source contradict the others'"))
            taken |= set(numbers)
    if rest := [number for number in against if number not in taken]:
        found.append(Doubt(rest, "others say something else of the same question"))
    return found


def _outvoted(same: Sequence[Item], quarantine: Quarantine, good: float) -> list[Item]:
    """Of one question: those against whom enough sources, and more than stand beside them, say one thing."""
    beside = {
        one.number: {other.source for other in same if _agree(one, other, quarantine, good)} | {one.source}
        for one in same
    }
    return [
        one
        for one in same
        if any(
            len(beside[other.number]) >= max(quarantine.least, len(beside[one.number]) + 1)
            for other in same
            if not _agree(one, other, quarantine, good)
        )
    ]


def _agree(one: Item, other: Item, quarantine: Quarantine, good: float) -> bool:
    """Do they say the same? What cannot be compared does not contradict."""
    if one.better is not None and other.better is not None:
        return likeness(one.better, other.better) >= quarantine.alike
    if one.better is None and other.better is None and one.text == other.text:
        return one.was_good(good) == other.was_good(good)
    return True
