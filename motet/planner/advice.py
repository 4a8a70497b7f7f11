"""How many experiments at a time: as long as one more at a time gains enough, and no step is slower than one bears."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from motet.planner.makespan import Waiting

WORTH = 0.03  # of the makespan that one more level must save


@dataclass(frozen=True)
class Advice:
    """The level, and why it is not more."""

    level: int
    why: str


def advise(table: Sequence[Waiting], slowest_step: float | None = None, worth: float = WORTH) -> Advice:
    """`table`: of every level from 1 on. `slowest_step`: seconds that one is ready to wait for a step; None: any.

    Levels that gain nothing by themselves are passed over where a later one does: eight experiments, five at a time,
    need two waves like four at a time.
    """
    chosen, why = table[0], f"all {len(table)} at a time" if len(table) > 1 else "there is but one experiment"
    for one in table[1:]:
        if slowest_step is not None and one.step > slowest_step:
            why = f"at {one.level} a step would take {one.step:.3g} s"
            break
        if min(later.last for later in table[one.level - 1 :]) > (1 - worth) * chosen.last:
            why = f"more at a time would save less than {100 * worth:.0f} % of {chosen.last:.3g} s"
            break
        if one.last <= (1 - worth) * chosen.last:
            chosen = one
    return Advice(chosen.level, why)
