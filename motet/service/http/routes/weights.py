"""Weights out and in: save a run, publish a version for sampling, make a run from a checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import APIRouter

from motet.engine.core.requests import DropVersion, LoadRun, Publish, SaveRun, SaveVersion
from motet.engine.types import PublishResult
from motet.errors import BadRequest
from motet.service.http.checkpoints import check_name, expiry, folder_bytes, new_folder, remove_folder
from motet.service.http.deps import Svc, Tenant
from motet.service.http.futures import Reply, json_reply
from motet.service.http.registry import Checkpoint, PublishedVersion, Run, Sampler, Session, tinker_path
from motet.service.http.routes.training import add_run, check_optimizer
from motet.service.http.service import Service
from motet.service.wire import schemas

router = APIRouter()


@router.post("/save_weights")
async def save_weights(body: schemas.SaveWeights, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Save a run's weights and optimizer under a name."""
    run = service.registry.run(tenant, body.model_id)
    return service.train(run, body.seq_id, lambda: _save_weights(service, run, body))


async def _save_weights(service: Service, run: Run, body: schemas.SaveWeights) -> Reply:
    name, expires = check_name(body.path), expiry(body.ttl_seconds)
    path = tinker_path(run.id, "weights", name)
    with _saving(service, run, path, body.overwrite):
        folder = new_folder(service.settings.data_dir, run.id, "weights", name)
        await service.engine.call(SaveRun(run.id, str(folder)))
        await _keep(service, Checkpoint(run, "weights", name, folder, body.user_metadata or {}, expires=expires))
    return json_reply({"type": "save_weights", "path": path})


@contextmanager
def _saving(service: Service, run: Run, path: str, overwrite: bool) -> Iterator[None]:
    """Have the path to oneself. BadRequest where something stands there, or is on its way there."""
    before = service.registry.checkpoints.get(path)
    stands = before is not None and not before.expired and not overwrite
    if stands or path in run.saving:
        raise BadRequest(f"the checkpoint {path} exists: choose another name, or save_weights with overwrite")
    run.saving.add(path)
    try:
        yield
    finally:
        run.saving.discard(path)


async def _keep(service: Service, saved: Checkpoint) -> None:
    """Enter a checkpoint that has been written. What stood under its name goes, and what has expired."""
    saved.size = await asyncio.to_thread(folder_bytes, saved.folder)
    before = service.registry.checkpoints.get(saved.path)
    service.registry.checkpoints[saved.path] = saved
    if before is not None:
        await asyncio.to_thread(remove_folder, before.folder)
    for gone in [other for other in service.registry.checkpoints.values() if other.expired]:
        await service.forget_checkpoint(gone)


@router.post("/save_weights_for_sampler")
async def save_weights_for_sampler(body: schemas.SaveForSampler, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Publish a version: under a name, which is kept on disk too, or for one new sampler."""
    run = service.registry.run(tenant, body.model_id)
    job = _publish_named if body.path is not None else _publish_nameless
    return service.train(run, body.seq_id, lambda: job(service, run, body))


async def _publish_named(service: Service, run: Run, body: schemas.SaveForSampler) -> Reply:
    name, expires = check_name(body.path), expiry(body.ttl_seconds)
    path = tinker_path(run.id, "sampler_weights", name)
    with _saving(service, run, path, overwrite=False):
        published = await service.engine.call(Publish(run.id, path))
        folder = new_folder(service.settings.data_dir, run.id, "sampler_weights", name)
        await service.engine.call(SaveVersion(path, str(folder)))
        saved = Checkpoint(run, "sampler_weights", name, folder, body.user_metadata or {}, expires=expires)
        await _keep(service, saved)
    return _published(run, published, {"path": path}, nameless=False)


async def _publish_nameless(service: Service, run: Run, body: schemas.SaveForSampler) -> Reply:
    if body.sampling_session_seq_id is None:
        raise BadRequest("send a path (a name to keep) or a sampling_session_seq_id (a sampler to make)")
    if body.kind not in ("snapshot", "inflight"):
        raise BadRequest(f"the kind {body.kind!r} is unknown: choose snapshot or inflight")
    session = service.registry.live_session(run.tenant, run.id.rpartition(":train:")[0])
    sampler_id = f"{session.id}:sample:{body.sampling_session_seq_id}"
    published = await service.engine.call(Publish(run.id, sampler_id))
    if session.finished:  # meanwhile: nobody will ever sample from it
        service.let_go(DropVersion(sampler_id))
    sampler = Sampler(sampler_id, run.tenant, run.generation, version=sampler_id)
    if body.kind == "inflight":
        run.inflight_version = sampler_id  # earlier inflight samplers of the run go over to it
        sampler.follows = run
    service.registry.add_sampler(session, sampler)
    return _published(run, published, {"sampling_session_id": sampler_id}, nameless=True)


def _published(run: Run, result: PublishResult, told: dict[str, str], nameless: bool) -> Reply:
    run.versions.append(PublishedVersion(result, nameless))
    extra = {"number": result.number, "content_hash": result.content_hash, "seconds": result.seconds}
    return json_reply({"type": "save_weights_for_sampler", **told, "motet": extra})


@router.post("/load_weights")
async def load_weights(body: schemas.LoadWeights, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """A new run from a checkpoint, named SESSION:train:NUMBER; its shape is the checkpoint's."""
    if body.session_id is None or body.model_seq_id is None:
        run = service.registry.run(tenant, body.model_id or "")
        return service.train(run, body.seq_id, _load_into_run)
    session = service.registry.live_session(tenant, body.session_id)
    run_id = f"{session.id}:train:{body.model_seq_id}"
    return service.create(tenant, run_id, lambda: _load(service, session, run_id, body))


async def _load_into_run() -> Reply:
    raise BadRequest("a run takes no other weights: make a new one with create_training_client_from_state()")


async def _load(service: Service, session: Session, run_id: str, body: schemas.LoadWeights) -> Reply:
    if body.base_model is not None:
        service.check_base_model(body.base_model)
    check_optimizer(body.optimizer_config)
    saved = service.registry.checkpoint(session.tenant, body.path)
    if saved.kind != "weights":
        raise BadRequest(f"{saved.path} is for sampling only: load a path that save_state gave")
    run = Run(run_id, session.tenant, body.user_metadata or {}, service.engine.generation, shape=None)
    run.shape = await add_run(service, session, run, LoadRun(run_id, str(saved.folder), body.optimizer))
    return json_reply({"type": "load_weights", "path": saved.path, "model_id": run_id})
