"""The loop with its people: ask, judge, learn, again; a poisoned batch, and somebody who overrules the gate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from motet.client.names import Names
from motet.lab.loop.rounds import Rounds
from motet.lab.loop.simulated.crowd import Crowd, Guard
from motet.lab.loop.simulated.settings import Simulation

LONGEST_CANARY = 12  # batches of questions


@dataclass(frozen=True)
class Entry:
    """How things stand after something has happened."""

    what: str
    serving: int  # version
    acceptance: float  # of answers to questions that are never learned from
    general: float | None  # the regression set's mean score at the same endpoint; None: there is no such set
    decided: str  # what the loop last did, and why
    seconds: float | None = None  # from the last feedback to the decision


class Play:
    """`tell` hears of each entry as it comes."""

    def __init__(
        self,
        name: str,
        rounds: Rounds,
        names: Names,
        crowd: Crowd,
        plan: Simulation,
        general: Guard,
        tell: Callable[[Entry], None],
    ) -> None:
        self._name = name
        self._rounds = rounds
        self._names = names
        self._crowd = crowd
        self._plan = plan
        self._general = general
        self._tell = tell
        self._batch = 0
        self._turns = 0  # of the history, at the last entry

    async def run(self) -> list[Entry]:
        """Everything, from a version that has learned nothing."""
        await self._settle()
        entries = [await self._entry("before any feedback", None)]
        for number in range(1, self._plan.rounds + 1):
            poisoned = number == self._plan.poisoned
            entries.append(await self._round(number, poisoned))
            if poisoned and self._plan.overruled:
                entries.append(await self._overrule())
        return entries

    async def _round(self, number: int, poisoned: bool) -> Entry:
        await self._visit(poisoned)
        began = time.monotonic()
        await self._settle()
        what = f"round {number}" + (", poisoned" if poisoned else "")
        return await self._entry(what, time.monotonic() - began)

    async def _overrule(self) -> Entry:
        """Half of the traffic meets what the gate has refused; the loop looks at what people say."""
        if self._names.show(self._name)["candidate"] is None:
            return await self._entry("nothing to overrule: the gate let it through", None)
        self._names.canary(self._name, 0.5, "somebody overrules the gate")
        began = time.monotonic()
        for _ in range(LONGEST_CANARY):
            await self._visit()
            if await self._rounds.advance():
                break
        return await self._entry("the gate overruled by hand", time.monotonic() - began)

    async def _visit(self, poisoned: bool = False) -> None:
        await self._crowd.visit(self._batch, poisoned)
        self._batch += 1

    async def _settle(self) -> None:
        """Until nothing can be done without more from people."""
        while await self._rounds.advance():
            if self._rounds.stage() == "gather":
                return

    async def _entry(self, what: str, seconds: float | None) -> Entry:
        acceptance = await self._crowd.measure()
        general = await self._crowd.exam(self._general)
        name = self._names.show(self._name)
        last = name["history"][-1]
        decided = f"{last['event']} v{last['version']}: {last['reason']}"
        if len(name["history"]) == self._turns:
            decided = "nothing: too few corrections for a round"
        self._turns = len(name["history"])
        entry = Entry(what, name["serving"], acceptance, general, decided, seconds)
        self._tell(entry)
        return entry
