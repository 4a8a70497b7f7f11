"""Weights out and in: save a run, publish a version for sampling, load a checkpoint."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from motet.service.http.deps import Svc, Tenant
from motet.service.http.jobs.external import SAVE_EXTERNAL
from motet.service.http.jobs.loading import LOAD_INTO_RUN, LOAD_WEIGHTS
from motet.service.http.jobs.weights import SAVE_FOR_SAMPLER, SAVE_WEIGHTS
from motet.service.http.routes.training import as_json
from motet.service.wire import schemas

router = APIRouter()


@router.post("/save_weights")
async def save_weights(body: schemas.SaveWeights, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Save a run's weights and optimizer under a name."""
    run = service.registry.run(tenant, body.model_id)
    return await service.train(run, body.seq_id, SAVE_WEIGHTS, body, as_json(body))


@router.post("/save_weights_for_sampler")
async def save_weights_for_sampler(body: schemas.SaveForSampler, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Publish a version: under a name, which is kept until it is deleted, or for one new sampler."""
    run = service.registry.run(tenant, body.model_id)
    return await service.train(run, body.seq_id, SAVE_FOR_SAMPLER, body, as_json(body))


@router.post("/save_weights_external")
async def save_weights_external(body: schemas.SaveExternal, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Export a run's adapter as a PEFT folder, to be downloaded by links."""
    run = service.registry.run(tenant, body.model_id)
    return await service.train(run, body.seq_id, SAVE_EXTERNAL, body, as_json(body))


@router.post("/load_weights")
async def load_weights(body: schemas.LoadWeights, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """A new run from a checkpoint, named SESSION:train:NUMBER; in the older form, new weights for a run."""
    if body.session_id is None or body.model_seq_id is None:
        run = service.registry.run(tenant, body.model_id or "")
        return await service.train(run, body.seq_id, LOAD_INTO_RUN, body, as_json(body))
    session = service.registry.live_session(tenant, body.session_id)
    run_id = f"{session.id}:train:{body.model_seq_id}"
    return await service.create(session, run_id, LOAD_WEIGHTS, body, as_json(body))
