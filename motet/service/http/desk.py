"""The desk carries accepted requests to their outcome: it starts the work, writes what came of it, and answers.

Requests of a run are settled in the order of their numbers, so that after a crash a run has a prefix that happened and
a rest that did not. What dies with an engine stays open, and is begun anew once its run stands again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from motet.errors import EngineAway, EngineFault, EngineGone, MotetError
from motet.service.catalog.changes import StorageFault
from motet.service.http.accepted import Accepted, Outcome
from motet.service.http.futures import Promises, failure
from motet.service.http.journal import Journal

MOST_DEATHS = 3  # of engines, before a request that was in hand each time, at last alone, is given up
BAD_LUCK = 8  # of engines, before one is given up that was never alone


class Desk:
    """`worker` is what works are called with; `on_lost` hears of a request whose outcome could not be written."""

    def __init__(self, worker: Any, journal: Journal, promises: Promises, on_lost: Callable[[Accepted], None]) -> None:
        self._worker = worker
        self._journal = journal
        self._promises = promises
        self._on_lost = on_lost
        self.open: dict[str, Accepted] = {}  # everything accepted and not settled, by id, in the order of acceptance

    def file(self, accepted: Accepted) -> None:
        """Take a request in; it is not begun yet."""
        self.open[accepted.id] = accepted
        accepted.promise.on_cancel = lambda: self.take_back(accepted)

    def begin(self, accepted: Accepted, alone: bool = False) -> None:
        """Start its work. alone: no other that may have killed an engine is begun until this one has worked."""
        assert accepted.stage == "waiting", accepted.id
        accepted.stage, accepted.alone = "working", alone
        task = accepted.task = asyncio.create_task(accepted.kind.work(self._worker, accepted))
        task.add_done_callback(lambda done: self._worked(accepted, done))

    async def interrupt(self, requests: Iterable[Accepted]) -> None:
        """Stop works, to be begun anew later; outcomes that are being written are waited for."""
        tasks = []
        for accepted in requests:
            if accepted.task is not None:
                tasks.append(accepted.task)
                if accepted.stage != "recording":
                    accepted.task.cancel()
                    accepted.task, accepted.stage = None, "waiting"
        if tasks:
            await asyncio.wait(tasks)

    def take_back(self, accepted: Accepted) -> None:
        """Its client does not want it any more."""
        if accepted.stage == "waiting":
            self._settle_with(accepted, Outcome(failure(asyncio.CancelledError())))
        elif accepted.stage == "working" and accepted.task is not None:
            accepted.task.cancel()

    def give_up(self, accepted: Accepted, error: MotetError) -> None:
        """Settle a request whose turn will never come."""
        assert accepted.stage == "waiting", accepted.id
        self._settle_with(accepted, Outcome(failure(error)))

    def _worked(self, accepted: Accepted, task: asyncio.Task[Outcome]) -> None:
        if accepted.task is not task:  # interrupted
            return
        accepted.task, accepted.stage = None, "waiting"
        if task.cancelled():
            self._settle_with(accepted, Outcome(failure(asyncio.CancelledError())))
            return
        error = task.exception()
        if error is None:
            self._settle_with(accepted, task.result())
        elif isinstance(error, EngineGone):
            self._died(accepted, error)
        else:
            if not isinstance(error, MotetError):
                context = {"message": "a request failed on a fault", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
            self._settle_with(accepted, Outcome(failure(error)))

    def _died(self, accepted: Accepted, error: EngineGone) -> None:
        """It stays open, to be begun anew; one that has seen too many engines die is given up."""
        if not isinstance(error, EngineAway):
            accepted.deaths += 1
        if accepted.deaths >= (MOST_DEATHS if accepted.alone else BAD_LUCK):
            told = f"given up: the engine died {accepted.deaths} times with this request in hand"
            self._settle_with(accepted, Outcome(failure(EngineFault(told))))

    def _settle_with(self, accepted: Accepted, outcome: Outcome) -> None:
        accepted.stage = "settling" if accepted.before is not None else "recording"
        accepted.task = asyncio.create_task(self._settle(accepted, outcome))

    async def _settle(self, accepted: Accepted, outcome: Outcome) -> None:
        await accepted.turn()
        accepted.before = None
        accepted.stage = "recording"
        reply = outcome.reply
        try:
            await self._journal.done(accepted, outcome)
        except StorageFault as fault:
            reply = failure(fault)
            self._on_lost(accepted)
        else:
            outcome.then()
        del self.open[accepted.id]
        accepted.settled.set()
        self._promises.fulfil(accepted.promise, reply)
