"""How many experiments at a time: as long as one more at a time gains enough, and no step is slower than one bears."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from motet.planner.law import Point
from motet.planner.makespan import Waiting, Work, waiting

WORTH = 0.03  # of the makespan that one more level must save


@dataclass(frozen=True)
class Advice:
    """The level, and why it is not more."""

    level: int
    why: str
    table: list[Waiting]  # of every level that was looked at


def advise(points: Sequence[Point], work: Work, slowest_step: float | None = None, worth: float = WORTH) -> Advice:
    """`slowest_step`: seconds that one is ready to wait for a step; None: any."""
    table = [waiting(points, work, level) for level in range(1, min(len(points), work.experiments) + 1)]
    chosen, why = table[0], "there is but one experiment"
    for one in table[1:]:
        why = f"all {work.experiments} at a time"
        if slowest_step is not None and one.step > slowest_step:
            why = f"at {one.level} a step would take {one.step:.3g} s"
            break
        later = [other.last for other in table[one.level - 1 :]]
        if min(later) > (1 - worth) * chosen.last:
            why = f"more at a time would save less than {100 * worth:.0f} % of {chosen.last:.3g} s"
            break
        if one.last <= (1 - worth) * chosen.last:
            chosen = one
    return Advice(chosen.level, why, table)
