"""Samplers, and sampling from them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from motet.errors import BadRequest
from motet.service.catalog.changes import StorageFault
from motet.service.http.deps import Svc, Tenant
from motet.service.http.jobs.sampling import ASAMPLE
from motet.service.http.journal import sampler_row
from motet.service.http.registry import Sampler
from motet.service.http.routes.training import as_json
from motet.service.http.service import Service
from motet.service.wire import schemas

MAX_SAMPLES = 4096  # each has an id in the answer to the submission

router = APIRouter()


@router.post("/create_sampling_session")
async def create_sampling_session(body: schemas.CreateSamplingSession, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Open a sampler on the base model or on a sampler checkpoint. Sent again, it gives the same one."""
    session = service.registry.live_session(tenant, body.session_id)
    sampler_id = f"{session.id}:sample:{body.sampling_session_seq_id}"
    if sampler_id not in service.registry.samplers:
        sampler = Sampler(sampler_id, tenant, model_path=body.model_path)
        if body.model_path is None:
            service.check_base_model(body.base_model)
        else:
            sampler.version = _sampler_checkpoint(service, tenant, body.model_path)
        service.registry.add_sampler(session, sampler)
        try:
            await service.journal.write(sampler_row(sampler, session))
        except StorageFault:
            service.registry.forget_sampler(session, sampler)
            raise
    return {"type": "create_sampling_session", "sampling_session_id": sampler_id}


def _sampler_checkpoint(service: Service, tenant: str, path: str) -> str:
    checkpoint = service.registry.readable(tenant, path)
    if checkpoint.kind != "sampler_weights":
        raise BadRequest(f"{path} is training state: sample from a path that save_weights_for_sampler gave")
    return checkpoint.path


@router.get("/samplers/{sampler_id}")
async def get_sampler(sampler_id: str, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """What a sampler samples from."""
    sampler = service.registry.sampler(tenant, sampler_id)
    return {"sampler_id": sampler.id, "base_model": service.engine.info.name, "model_path": sampler.model_path}


@router.post("/asample")
async def asample(body: schemas.Sample, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Sample from a sampler; the result is a SampleResponse."""
    if body.num_samples > MAX_SAMPLES:
        raise BadRequest(f"num_samples is {body.num_samples}: at most {MAX_SAMPLES} in one request")
    sampler = service.registry.sampler(tenant, body.sampling_session_id)
    promise = await service.sample(sampler, body.seq_id, ASAMPLE, body, as_json(body))
    sequence_ids = [f"{promise.id}:{index}" for index in range(body.num_samples)]
    return {"request_id": promise.id, "sample_sequence_ids": sequence_ids}
