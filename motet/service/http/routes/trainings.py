"""Trainings of names in service: claims of feedback, and what came of them."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter

from motet.service.feedback.items import digest_of
from motet.service.feedback.training import Plan
from motet.service.http.deps import Svc, Tenant
from motet.service.wire import feedback as wire

router = APIRouter(prefix="/trainings")


@router.post("")
async def claim_items(body: wire.Claim, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Claim items for a training: all of them or none; the same key gives the same training."""
    if body.parent is not None:
        service.registry.readable(tenant, body.parent)
    plan = Plan(**vars(body), digest=digest_of(body.model_dump(mode="json")))
    return await service.records.trainings.claim(tenant, plan)


@router.get("")
async def list_trainings(
    service: Svc, tenant: Tenant, name: str | None = None, state: Literal["open", "done", "abandoned"] | None = None
) -> dict[str, Any]:
    """The caller's, oldest first."""
    return {"trainings": await service.records.trainings.all(tenant, name, state)}


@router.get("/{training}")
async def show_training(training: str, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """One of them, with its items."""
    return await service.records.trainings.show(tenant, training)


@router.post("/{training}/close")
async def close_training(training: str, body: wire.Close, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """It gave a checkpoint, or was given up: then its items are free again."""
    if body.path is not None:
        service.registry.checkpoint(tenant, body.path)
    return await service.records.trainings.close(tenant, training, body.path, body.reason)
