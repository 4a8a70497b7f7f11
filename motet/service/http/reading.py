"""The engine's numbers as they were last told. Asking for them never takes longer than a second."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from dataclasses import dataclass, field

from motet.engine.core.requests import Stats
from motet.errors import MotetError
from motet.service.http.service import EngineDoor

ANSWER_SECONDS = 1.0
OF_RUN = ":"  # between what a number is and the run that it is of


@dataclass(frozen=True)
class EngineNumbers:
    """The engine's Stats: of the whole, and device seconds on both lanes by run."""

    whole: dict[str, float] = field(default_factory=dict)
    run_seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, stats: dict[str, float]) -> EngineNumbers:
        """From an answer to Stats."""
        numbers = cls()
        for name, value in stats.items():
            _, inner, run = name.partition(OF_RUN)
            if inner:
                numbers.run_seconds[run] = numbers.run_seconds.get(run, 0.0) + value
            else:
                numbers.whole[name] = value
        return numbers


def seen_by(runs: Container[str], stats: dict[str, float]) -> dict[str, float]:
    """What the owner of some runs may see of Stats: nothing of other runs, not even their names."""
    return {name: value for name, value in stats.items() if OF_RUN not in name or name.partition(OF_RUN)[2] in runs}


class EngineReading:
    """Asks the engine's end of a service, and remembers."""

    def __init__(self, engine: EngineDoor) -> None:
        self.numbers = EngineNumbers()
        self.up = False  # it answered in time when it was last asked
        self._engine = engine
        self._asking: asyncio.Task[bool] | None = None

    async def refresh(self) -> None:
        """Ask, or go on waiting for an answer that was asked for before."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        await asyncio.wait({self._asking}, timeout=ANSWER_SECONDS)
        self.up = self._asking.done() and self._asking.result()

    async def _ask(self) -> bool:
        try:
            self.numbers = EngineNumbers.of(await self._engine.call(Stats()))
        except MotetError:
            return False
        return True
