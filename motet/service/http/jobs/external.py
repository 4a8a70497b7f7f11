"""Weights out of the house: a run's adapter as a PEFT folder for download, sealed where the client wants it."""

from __future__ import annotations

import asyncio

from motet.engine.core.requests import DropVersion, Publish, SaveVersion
from motet.service.http.accepted import Accepted, Kind, Outcome
from motet.service.http.checkpoints import check_name, expiry, new_folder
from motet.service.http.futures import json_reply
from motet.service.http.jobs.weights import keep, saving, weigh
from motet.service.http.registry import Checkpoint, Run, tinker_path
from motet.service.http.sealing import read_recipients, seal_folder
from motet.service.http.service import Service
from motet.service.wire import schemas


async def save_weights_external(service: Service, accepted: Accepted) -> Outcome:
    """Export the run's weights as they are in its turn. The version that carries them out has no life of its own."""
    run, body = accepted.owner, accepted.message
    assert isinstance(run, Run) and isinstance(body, schemas.SaveExternal)
    run.check()
    name, expires = check_name(body.path), expiry(body.ttl_seconds)
    recipients = read_recipients(body.age_encryption_recipients) if body.age_encryption_recipients else []
    path = tinker_path(run.id, "external_weights", name)
    with saving(service, run, path, overwrite=False):
        folder = new_folder(service.settings.data_dir, run.id, "external_weights", name)
        await service.engine.call(Publish(run.id, path))
        try:
            await service.engine.call(SaveVersion(path, str(folder)))
        finally:
            service.let_go(DropVersion(path))
        if recipients:
            await asyncio.to_thread(seal_folder, folder, recipients)
        saved = Checkpoint(run, "external_weights", name, folder, {}, expires=expires)
        await weigh(service, saved)
    reply = json_reply({"type": "save_weights_external", "path": path, "size_bytes": saved.size})
    return keep(service, saved, reply)


KINDS = (Kind("save_weights_external", schemas.SaveExternal.model_validate_json, save_weights_external),)
(SAVE_EXTERNAL,) = KINDS
