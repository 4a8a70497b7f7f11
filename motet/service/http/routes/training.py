"""Runs: create, look at, forward and backward, step."""

from __future__ import annotations

import secrets
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel

from motet.errors import NotFound
from motet.service.http.deps import Svc, Tenant
from motet.service.http.jobs.training import CREATE_MODEL, FORWARD_BACKWARD, OPTIM_STEP
from motet.service.http.limits import read_body
from motet.service.wire import schemas
from motet.service.wire import training as wire

router = APIRouter()


@router.post("/create_model")
async def create_model(body: schemas.CreateModel, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """A new run with a fresh adapter, named SESSION:train:NUMBER."""
    session = service.registry.live_session(tenant, body.session_id)
    if body.lora_config is not None and body.lora_config.seed is None:
        body.lora_config.seed = secrets.randbits(31)  # now: should the work be begun anew, it draws the same weights
    run_id = f"{session.id}:train:{body.model_seq_id}"
    return await service.create(session, run_id, CREATE_MODEL, body, as_json(body))


def as_json(body: BaseModel) -> bytes:
    """A body as the journal keeps it."""
    return body.model_dump_json().encode()


@router.post("/get_info")
async def get_info(body: schemas.ModelId, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """What a run is made of."""
    run, info = service.registry.run(tenant, body.model_id), service.engine.info
    if run.shape is None:
        raise NotFound(f"the run {run.id!r} is still being loaded: wait for its future first")
    return {
        "type": "get_info",
        "model_id": run.id,
        "model_name": info.name,
        "model_data": {"model_name": info.name, "tokenizer_id": info.folder},
        "is_lora": True,
        "lora_rank": run.shape.rank,
    }


@router.post("/forward_backward")
async def forward_backward(request: Request, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Loss and log-probabilities, and unless forward_only the gradient. Protobuf in, protobuf out."""
    body = await read_body(request, service.settings.max_body_bytes)
    message = wire.parse_forward_backward(body)
    run = service.registry.run(tenant, message.model_id)
    return await service.train(run, message.seq_id, FORWARD_BACKWARD, message, body)


@router.post("/optim_step")
async def optim_step(body: schemas.OptimStep, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """One AdamW step on the accumulated gradient."""
    run = service.registry.run(tenant, body.model_id)
    return await service.train(run, body.seq_id, OPTIM_STEP, body, as_json(body))
