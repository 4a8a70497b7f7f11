"""Weights in: a run from a checkpoint, or a checkpoint into a run."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import asdict

from motet.engine.core.requests import DropRun, LoadRun, RestoreRun, SaveRun
from motet.engine.types import SavedRun
from motet.errors import BadRequest, EngineFault
from motet.service.catalog.changes import Remove, Set
from motet.service.http.accepted import Accepted, Kind, Outcome
from motet.service.http.checkpoints import run_folder
from motet.service.http.futures import json_reply
from motet.service.http.jobs.gradient import bodies, clear_gradient
from motet.service.http.jobs.snapshots import forget_files
from motet.service.http.jobs.training import add_run, check_optimizer, new_run
from motet.service.http.journal import run_row
from motet.service.http.registry import Checkpoint, Run, Session
from motet.service.http.service import Service
from motet.service.http.standing import stand_up
from motet.service.wire import schemas


async def load_weights(service: Service, accepted: Accepted) -> Outcome:
    """A new run whose weights, and optimizer where asked for, are a checkpoint's. Its own snapshot stands at once."""
    session, body = accepted.owner, accepted.message
    assert isinstance(session, Session) and isinstance(body, schemas.LoadWeights)
    if body.base_model is not None:
        service.check_base_model(body.base_model)
    check_optimizer(body.optimizer_config)
    saved = _training_state(service, session.tenant, body.path)
    run = new_run(service, session, accepted, body.user_metadata or {})
    claim = service.claim(run.tenant, run.metadata)
    run.shape = await add_run(service, session, run, LoadRun(run.id, str(saved.folder), body.optimizer, claim))
    run.snapshot = f"{run_folder(run.id)}/snapshots/0"
    with contextlib.ExitStack() as undo:
        undo.callback(service.let_go, DropRun(run.id))
        undo.callback(service.registry.forget_run, session, run)
        await service.engine.call(SaveRun(run.id, str(service.path(run.snapshot))))
        undo.pop_all()
    reply = json_reply({"type": "load_weights", "path": saved.path, "model_id": run.id})
    return Outcome(reply, (run_row(run),))


async def load_into_run(service: Service, accepted: Accepted) -> Outcome:
    """A checkpoint's weights, and optimizer where asked for, take the place of a run's own."""
    run, body = accepted.owner, accepted.message
    assert isinstance(run, Run) and isinstance(body, schemas.LoadWeights)
    run.check()
    saved = _training_state(service, run.tenant, body.path)
    engine, published, claim = service.engine, run.newest_number, service.claim(run.tenant, run.metadata)
    folder = f"{run_folder(run.id)}/snapshots/{accepted.number}-{secrets.token_hex(4)}"
    engine.submit(DropRun(run.id))
    restoring = engine.submit(RestoreRun(run.id, SavedRun(str(saved.folder), body.optimizer), (), published, claim))
    saving = engine.submit(SaveRun(run.id, str(service.path(folder))))
    try:
        state = await restoring
        await saving
    except EngineFault:
        run.generation = 0
        service.errand(stand_up(service, run))  # as it was
        raise
    await accepted.turn()
    before, passed = run.snapshot, list(run.steps)

    def then() -> None:
        run.shape, run.snapshot, run.snapshot_number = state.shape, folder, accepted.number
        run.steps = []
        run.accumulating.clear()
        service.errand(forget_files(service, passed, before))

    values = {"snapshot": folder, "snapshot_number": accepted.number, "shape": asdict(state.shape)}
    rows = (Set("runs", {"id": run.id}, values), Remove("steps", {"run": run.id}), *clear_gradient(service, run))
    reply = json_reply({"type": "load_weights", "path": saved.path, "model_id": run.id})
    return Outcome(reply, rows, bodies(run), then=then)


def _training_state(service: Service, tenant: str, path: str) -> Checkpoint:
    saved = service.registry.readable(tenant, path)
    if saved.kind != "weights":
        raise BadRequest(f"{saved.path} is for sampling only: load a path that save_state gave")
    return saved


KINDS = (
    Kind("load_weights", schemas.LoadWeights.model_validate_json, load_weights),
    Kind("load_into_run", schemas.LoadWeights.model_validate_json, load_into_run),
)
LOAD_WEIGHTS, LOAD_INTO_RUN = KINDS
