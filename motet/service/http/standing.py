"""A run stands up in an engine: as the journal has it, whatever took it out of the last one.

One path for a killed engine, a killed server, a step that could not be written, and a client that comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from motet.engine.core.requests import DropRun, RestoreRun
from motet.engine.types import FreshAdapter, JournaledStep, SavedRun
from motet.errors import EngineFault, EngineGone, MotetError, NotFound
from motet.service.http.registry import Run
from motet.service.wire.training import parse_forward_backward, read_forward_backward

if TYPE_CHECKING:
    from motet.service.http.service import Service


async def stand_up(service: Service, run: Run) -> None:
    """Have the present engine hold a run, then begin what is open on it. What arrives meanwhile stands in its line."""
    async with run.standing_up:
        generation = service.engine.generation
        if run.generation == generation:
            return
        await service.desk.interrupt(run.line)
        if run.lost is None:
            try:
                await _restore(service, run)
            except EngineGone:
                return  # whoever starts the next one calls again
            except MotetError as error:
                run.lost = error
        run.generation, run.resting = generation, False
        run.suspected = True
        all_worked = await service.suspects.begin(list(run.line))
        run.suspected = False
        if not all_worked:
            run.generation = 0
            return
        for accepted in run.line:
            if accepted.stage == "waiting" and not accepted.settled.is_set():
                service.desk.begin(accepted)


async def _restore(service: Service, run: Run) -> None:
    if run.base != service.engine.info.base_hash:
        raise EngineFault(f"the run {run.id!r} was made on another base model than this server's: serve that one again")
    with contextlib.suppress(NotFound):
        await service.engine.call(DropRun(run.id))
    steps = tuple(JournaledStep(str(service.path(step.gradient)), step.adam) for step in run.steps)
    claim = service.claim(run.tenant, run.metadata)
    await service.engine.call(RestoreRun(run.id, _origin(service, run), steps, run.newest_number, claim))
    await _accumulate(service, run)


def _origin(service: Service, run: Run) -> FreshAdapter | SavedRun:
    if run.snapshot is not None:
        return SavedRun(str(service.path(run.snapshot)))
    assert run.shape is not None and run.seed is not None, f"{run.id} has no origin"
    return FreshAdapter(run.shape, run.seed)


async def _accumulate(service: Service, run: Run) -> None:
    """Compute again the gradients that await the next step, where they would be the same."""
    if not run.accumulating:
        return
    catalog = service.journal.catalog
    rows = await asyncio.to_thread(catalog.rows, "requests", {"id": list(run.accumulating)})
    rows.sort(key=lambda row: int(row["number"]))
    same = all(row["accumulates"] == service.engine.info.fingerprint for row in rows)
    if not same or len(rows) < len(run.accumulating):
        run.gradient_lost = True
        return
    try:
        bodies = [service.journal.body(row) for row in rows]
    except OSError:
        run.gradient_lost = True
        return
    for body in bodies:  # one at a time: the engine has others to serve
        await service.engine.call(read_forward_backward(parse_forward_backward(body)))
