"""A checkpoint becomes another one: its files are copied, and a run that holds nothing else is its owner."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from pathlib import Path

from motet.engine.types import PublishResult
from motet.errors import BadRequest, EngineFault
from motet.service.http.checkpoints import expiry, new_folder, remove_folder
from motet.service.http.journal import checkpoint_row, run_row, version_row
from motet.service.http.registry import Checkpoint, PublishedVersion, Run, Session
from motet.service.http.service import Service
from motet.service.wire import schemas

NAME = "copy"


async def copy_checkpoint(service: Service, tenant: str, asked: schemas.CopyWeights) -> Checkpoint:
    """The copy, which stands. Asked for again under the same number, it is the same one."""
    expires = expiry(asked.ttl_seconds)
    source = service.registry.readable(tenant, asked.source_path)
    service.holdings.check_storage(tenant, source.size)
    session, number = await _place(service, tenant, asked)
    run_id = f"{session.id}:train:{number}"
    run = service.registry.runs.get(run_id)
    if run is not None:
        return _made_before(service, run, source)
    run = Run(run_id, session.id, tenant, {**source.run.metadata}, source.run.base, source.run.shape, seed=0)
    service.registry.add_run(session, run)
    folder = new_folder(service.settings.data_dir, run_id, source.kind, NAME)
    saved = Checkpoint(run, source.kind, NAME, folder, {**source.metadata}, source.size, expires=expires)
    try:
        await asyncio.to_thread(_copy_folder, source.folder, folder)
        await _enter(service, saved, source)
    except (OSError, EngineFault) as error:
        service.registry.forget_run(session, run)
        await asyncio.to_thread(remove_folder, folder)
        if isinstance(error, OSError):
            raise EngineFault(f"{source.path} could not be copied: {error}") from None
        raise
    return saved


async def _place(service: Service, tenant: str, asked: schemas.CopyWeights) -> tuple[Session, int]:
    """The slot that the copy goes to; a session of its own where only a project is named."""
    if asked.session_id is not None and asked.model_seq_id is not None:
        return service.registry.live_session(tenant, asked.session_id), asked.model_seq_id
    if asked.session_id is not None or asked.destination_project_id is None:
        raise BadRequest("send a session_id and a model_seq_id, or a destination_project_id")
    session = await service.open_session(tenant, {}, None, asked.destination_project_id)
    await service.finish(session)  # nothing else will ever begin in it
    return session, 0


def _made_before(service: Service, run: Run, source: Checkpoint) -> Checkpoint:
    kept = next(iter(service.registry.checkpoints_of(run.tenant, run)), None)
    if kept is None or kept.name != NAME or kept.kind != source.kind:
        raise BadRequest(f"{run.id!r} is taken: copy into a model_seq_id of its own")
    return kept


async def _enter(service: Service, saved: Checkpoint, source: Checkpoint) -> None:
    """Write it down, and only then let it be found."""
    folder = str(saved.folder.relative_to(service.settings.data_dir))
    rows, version = [run_row(saved.run), checkpoint_row(saved, folder)], None
    if saved.kind == "sampler_weights":
        told = service.registry.versions[source.path].result
        result = PublishResult(saved.path, 1, told.content_hash, 0.0)
        version = PublishedVersion(saved.run.id, result, nameless=False, folder=folder, generation=0)
        rows.append(version_row(version))
    await service.journal.write(*rows)
    if version is not None:
        service.registry.add_version(version)
    service.enter_checkpoint(saved)


def _copy_folder(source: Path, folder: Path) -> None:
    """Whole or not at all: beside its place, on disk, renamed."""
    beside = folder.with_name(f"{folder.name}~{secrets.token_hex(4)}.partial")
    try:
        shutil.copytree(source, beside)
        for path in (*beside.rglob("*"), beside):
            _sync(path)
        beside.rename(folder)
        _sync(folder.parent)
    except OSError:
        remove_folder(beside)
        raise


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
