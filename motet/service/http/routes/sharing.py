"""Checkpoints between people and places: published for other tenants, taken back, copied."""

from __future__ import annotations

from fastapi import APIRouter

from motet.service.catalog.changes import Set
from motet.service.http.copying import copy_checkpoint
from motet.service.http.deps import Svc, Tenant
from motet.service.http.service import Service
from motet.service.wire import schemas

router = APIRouter()


@router.post("/training_runs/{run_id}/checkpoints/{kind}/{name}/publish", status_code=204)
async def publish_checkpoint(run_id: str, kind: str, name: str, service: Svc, tenant: Tenant) -> None:
    """From now on every tenant may read it: load it, sample from it, copy and download it."""
    await _set_public(service, tenant, f"tinker://{run_id}/{kind}/{name}", True)


@router.delete("/training_runs/{run_id}/checkpoints/{kind}/{name}/publish", status_code=204)
async def unpublish_checkpoint(run_id: str, kind: str, name: str, service: Svc, tenant: Tenant) -> None:
    """Others may not begin anything with it any more; samplers that they have stay."""
    await _set_public(service, tenant, f"tinker://{run_id}/{kind}/{name}", False)


async def _set_public(service: Service, tenant: str, path: str, public: bool) -> None:
    saved = service.registry.checkpoint(tenant, path)
    await service.journal.write(Set("checkpoints", {"path": path}, {"public": public}))
    saved.public = public


@router.post("/copy_weights")
async def copy_weights(body: schemas.CopyWeights, service: Svc, tenant: Tenant) -> dict[str, str]:
    """A checkpoint of one's own that holds what another one does, one's own or a public one. Answers once it stands."""
    return {"tinker_path": (await copy_checkpoint(service, tenant, body)).path}
