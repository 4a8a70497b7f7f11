"""Snapshots of a run's state, every so many steps and off the critical path: they make its journal short."""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass

from motet.engine.core.requests import SaveRun
from motet.errors import EngineFault, MotetError
from motet.service.catalog.changes import Remove, Set
from motet.service.http.checkpoints import remove_folder, run_folder
from motet.service.http.registry import Run, TakenStep
from motet.service.http.service import Service

SNAPSHOT_STEPS = 8  # a run's state is written whole after so many steps; recovery takes at most about as many again
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A run's state on its way to a folder."""

    number: int  # of the request after which it is taken
    folder: str  # relative to the data folder
    saving: asyncio.Future[None]


def begin_snapshot(service: Service, run: Run, number: int) -> Snapshot | None:
    """Every so often: have the engine copy the run's state right behind the step that was submitted last."""
    run.since_snapshot += 1
    if run.since_snapshot < SNAPSHOT_STEPS:
        return None
    run.since_snapshot = 0
    folder = f"{run_folder(run.id)}/snapshots/{number}-{secrets.token_hex(4)}"
    return Snapshot(number, folder, service.engine.submit(SaveRun(run.id, str(service.path(folder)))))


async def keep_snapshot(service: Service, run: Run, snapshot: Snapshot) -> None:
    """From now on the run's state is the snapshot; what led there goes. Where it could not be written, all stays."""
    try:
        await snapshot.saving
    except MotetError as error:
        log.warning("no snapshot of %s: %s", run.id, error)
        return
    async with run.standing_up:  # nobody reads what is about to go
        passed = [step for step in run.steps if step.number <= snapshot.number]
        before = run.snapshot
        try:
            await service.journal.write(
                Set("runs", {"id": run.id}, {"snapshot": snapshot.folder, "snapshot_number": snapshot.number}),
                Remove("steps", {"run": run.id, "number": [step.number for step in passed]}),
            )
        except EngineFault as error:
            log.warning("no snapshot of %s: %s", run.id, error)
            return
        run.snapshot, run.snapshot_number = snapshot.folder, snapshot.number
        run.steps = [step for step in run.steps if step not in passed]
        await forget_files(service, passed, before)


async def forget_files(service: Service, steps: list[TakenStep], snapshot: str | None) -> None:
    """Remove gradients and a snapshot that no row names any more."""
    await asyncio.to_thread(_remove, service, steps, snapshot)


def _remove(service: Service, steps: list[TakenStep], snapshot: str | None) -> None:
    for step in steps:
        service.path(step.gradient).unlink(missing_ok=True)
    if snapshot is not None:
        remove_folder(service.path(snapshot))
