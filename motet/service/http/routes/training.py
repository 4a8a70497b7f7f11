"""Runs: create, look at, forward and backward, step."""

from __future__ import annotations

import math
import secrets
from typing import Any

from fastapi import APIRouter, Request

from motet.engine.core.requests import CreateRun, OptimStep
from motet.errors import BadRequest, MotetError, NotFound
from motet.service.http.deps import Svc, Tenant
from motet.service.http.futures import PROTOBUF, Reply, json_reply
from motet.service.http.limits import read_body
from motet.service.http.registry import Run, Session
from motet.service.http.service import Service
from motet.service.wire import schemas
from motet.service.wire import training as wire

router = APIRouter()


@router.post("/create_model")
async def create_model(body: schemas.CreateModel, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """A new run with a fresh adapter, named SESSION:train:NUMBER."""
    session = service.registry.live_session(tenant, body.session_id)
    run_id = f"{session.id}:train:{body.model_seq_id}"
    return service.create(tenant, run_id, lambda: _create(service, session, run_id, body))


async def _create(service: Service, session: Session, run_id: str, body: schemas.CreateModel) -> Reply:
    service.check_base_model(body.base_model)
    lora, metadata = body.lora_config, body.user_metadata or {}
    if lora is None:
        raise BadRequest("full fine-tuning is not available here: send a lora_config")
    check_optimizer(body.optimizer_config)
    shape = wire.read_shape(lora.rank, lora.train_attn, lora.train_mlp, lora.train_unembed, metadata)
    seed = secrets.randbits(31) if lora.seed is None else lora.seed
    run = Run(run_id, session.tenant, metadata, service.engine.generation, shape)
    await add_run(service, session, run, CreateRun(run_id, shape, seed))
    return json_reply({"type": "create_model", "model_id": run_id})


async def add_run(service: Service, session: Session, run: Run, request: Any) -> Any:
    """Register a run while the engine makes it; where the engine refuses, it has never been."""
    service.registry.add_run(session, run)
    try:
        return await service.engine.call(request)
    except MotetError:
        service.registry.forget_run(session, run)
        raise


def check_optimizer(config: dict[str, Any] | None) -> None:
    """AdamW is the only one."""
    kind = (config or {}).get("type", "adamw")
    if kind != "adamw":
        raise BadRequest(f"the optimizer {kind!r} is not available here: use adamw")


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

    async def job() -> Reply:
        result = await service.engine.call(wire.read_forward_backward(message))
        return Reply(wire.encode_train_result(result), PROTOBUF)

    return service.train(run, message.seq_id, job, size=len(body))


@router.post("/optim_step")
async def optim_step(body: schemas.OptimStep, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """One AdamW step on the accumulated gradient."""
    run = service.registry.run(tenant, body.model_id)

    async def job() -> Reply:
        adam = wire.read_adam(body.adam_params, body.optimizer_params)
        result = await service.engine.call(OptimStep(run.id, adam))
        return json_reply({"metrics": {key: value for key, value in result.metrics.items() if math.isfinite(value)}})

    return service.train(run, body.seq_id, job)
