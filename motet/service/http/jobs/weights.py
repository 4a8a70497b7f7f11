"""Weights out: save a run, publish a version for sampling."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from motet.engine.core.requests import DropVersion, Publish, SaveRun, SaveVersion
from motet.engine.types import PublishResult
from motet.errors import BadRequest
from motet.service.catalog.changes import Remove
from motet.service.http.accepted import Accepted, Kind, Outcome
from motet.service.http.checkpoints import check_name, expiry, folder_bytes, new_folder, remove_folder, run_folder
from motet.service.http.futures import Reply, json_reply
from motet.service.http.journal import checkpoint_row, sampler_row, version_row
from motet.service.http.quotas import OverQuota
from motet.service.http.registry import Checkpoint, PublishedVersion, Run, Sampler, tinker_path
from motet.service.http.service import Service
from motet.service.wire import schemas

NAMELESS_VERSIONS = 16  # of a run; the oldest goes when one more is published


async def save_weights(service: Service, accepted: Accepted) -> Outcome:
    """Save a run's weights and optimizer under a name."""
    run, body = accepted.owner, accepted.message
    assert isinstance(run, Run) and isinstance(body, schemas.SaveWeights)
    run.check()
    name, expires = check_name(body.path), expiry(body.ttl_seconds)
    path = tinker_path(run.id, "weights", name)
    with saving(service, run, path, body.overwrite):
        folder = new_folder(service.settings.data_dir, run.id, "weights", name)
        await service.engine.call(SaveRun(run.id, str(folder)))
        saved = Checkpoint(run, "weights", name, folder, body.user_metadata or {}, expires=expires)
        await weigh(service, saved)
    return keep(service, saved, json_reply({"type": "save_weights", "path": path}))


@contextmanager
def saving(service: Service, run: Run, path: str, overwrite: bool) -> Iterator[None]:
    """Have the path to oneself. BadRequest where something stands there, or is on its way there."""
    before = service.registry.checkpoints.get(path)
    stands = before is not None and not before.expired and not overwrite
    if stands or path in run.saving:
        raise BadRequest(f"the checkpoint {path} exists: choose another name, or save_weights with overwrite")
    if before is None:
        service.holdings.check_storage(run.tenant)
    run.saving.add(path)
    try:
        yield
    finally:
        run.saving.discard(path)


async def weigh(service: Service, saved: Checkpoint) -> None:
    """Find the size of what was written. OverQuota: its tenant has no room for it, so it is gone again."""
    saved.size = await asyncio.to_thread(folder_bytes, saved.folder)
    before = service.registry.checkpoints.get(saved.path)
    try:
        service.holdings.check_storage(saved.run.tenant, saved.size - (0 if before is None else before.size))
    except OverQuota:
        await asyncio.to_thread(remove_folder, saved.folder)
        raise


def keep(service: Service, saved: Checkpoint, reply: Reply, *versions: PublishedVersion) -> Outcome:
    """A checkpoint that has been written. What stood under its name goes, and what has expired."""
    before = service.registry.checkpoints.get(saved.path)

    def then() -> None:
        service.enter_checkpoint(saved)
        for version in versions:
            service.registry.add_version(version)
        service.errand(_tidy(service, before))

    folder = str(saved.folder.relative_to(service.settings.data_dir))
    rows = (checkpoint_row(saved, folder), *map(version_row, versions))
    return Outcome(reply, (Remove("checkpoints", {"path": saved.path}), *rows), then=then)


async def _tidy(service: Service, before: Checkpoint | None) -> None:
    if before is not None:
        await asyncio.to_thread(remove_folder, before.folder)
    for gone in [other for other in service.registry.checkpoints.values() if other.expired]:
        await service.forget_checkpoint(gone)


async def save_weights_for_sampler(service: Service, accepted: Accepted) -> Outcome:
    """Publish a version: under a name, or for one new sampler. Its PEFT folder stands before it is told."""
    run, body = accepted.owner, accepted.message
    assert isinstance(run, Run) and isinstance(body, schemas.SaveForSampler)
    run.check()
    return await (_publish_nameless if body.path is None else _publish_named)(service, run, body, accepted.id)


async def _publish_named(service: Service, run: Run, body: schemas.SaveForSampler, request_id: str) -> Outcome:
    name, expires = check_name(body.path), expiry(body.ttl_seconds)
    path = tinker_path(run.id, "sampler_weights", name)
    with saving(service, run, path, overwrite=False):
        folder = new_folder(service.settings.data_dir, run.id, "sampler_weights", name)
        version = await _publish(service, run, path, str(folder.relative_to(service.settings.data_dir)), False)
        saved = Checkpoint(run, "sampler_weights", name, folder, body.user_metadata or {}, expires=expires)
        try:
            await weigh(service, saved)
        except OverQuota:
            service.let_go(DropVersion(path))
            raise
    return keep(service, saved, _told(version.result, {"path": path}), version)


async def _publish(service: Service, run: Run, name: str, folder: str, nameless: bool) -> PublishedVersion:
    """Turn the run's weights into a version, and write it to a folder (relative to the data folder)."""
    generation = service.engine.generation
    service.holdings.check_adapter(run.tenant, generation)
    result: PublishResult = await service.engine.call(Publish(run.id, name))
    await service.engine.call(SaveVersion(name, str(service.path(folder))))
    return PublishedVersion(run.id, result, nameless, folder, generation)


async def _publish_nameless(service: Service, run: Run, body: schemas.SaveForSampler, request_id: str) -> Outcome:
    if body.sampling_session_seq_id is None:
        raise BadRequest("send a path (a name to keep) or a sampling_session_seq_id (a sampler to make)")
    if body.kind not in ("snapshot", "inflight"):
        raise BadRequest(f"the kind {body.kind!r} is unknown: choose snapshot or inflight")
    session = service.registry.live_session(run.tenant, run.session)
    sampler_id = f"{session.id}:sample:{body.sampling_session_seq_id}"
    if sampler_id in service.registry.samplers:
        raise BadRequest(f"sampling_session_seq_id {body.sampling_session_seq_id} is taken: send the next one")
    if session.claims.setdefault(sampler_id, request_id) != request_id or sampler_id in service.registry.samplers:
        raise BadRequest(f"sampling_session_seq_id {body.sampling_session_seq_id} is in use: count it up")
    folder = f"{run_folder(run.id)}/versions/{body.sampling_session_seq_id}-{secrets.token_hex(4)}"
    version = await _publish(service, run, sampler_id, folder, True)
    sampler = Sampler(sampler_id, run.tenant, version=sampler_id)
    if body.kind == "inflight":
        sampler.follows = run

    def then() -> None:
        service.registry.add_version(version)
        if session.finished:  # meanwhile: nobody will ever sample from it
            service.errand(service.forget_version(version))
            return
        if sampler.follows is not None:
            run.inflight_version = sampler_id  # earlier inflight samplers of the run go over to it
        service.registry.add_sampler(session, sampler)
        nameless = [one for one in run.versions if one.nameless and one.result.version in service.registry.versions]
        for old in nameless[:-NAMELESS_VERSIONS]:
            service.errand(service.forget_version(old))

    reply = _told(version.result, {"sampling_session_id": sampler_id})
    return Outcome(reply, (version_row(version), sampler_row(sampler, session)), then=then)


def _told(result: PublishResult, told: dict[str, str]) -> Reply:
    extra = {"number": result.number, "content_hash": result.content_hash, "seconds": result.seconds}
    return json_reply({"type": "save_weights_for_sampler", **told, "motet": extra})


KINDS = (
    Kind("save_weights", schemas.SaveWeights.model_validate_json, save_weights),
    Kind("save_weights_for_sampler", schemas.SaveForSampler.model_validate_json, save_weights_for_sampler),
)
SAVE_WEIGHTS, SAVE_FOR_SAMPLER = KINDS
