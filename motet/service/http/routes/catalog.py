"""What a tenant has: training runs and checkpoints."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter

from motet.service.catalog.changes import Set
from motet.service.http.checkpoints import expiry
from motet.service.http.deps import Svc, Tenant
from motet.service.http.journal import plain
from motet.service.http.registry import Checkpoint, CheckpointKind, Run
from motet.service.http.service import Service
from motet.service.wire import schemas
from motet.service.wire.records import cursor, page, text_values

TYPES: dict[CheckpointKind, Literal["training", "sampler", "external"]] = {
    "weights": "training",
    "sampler_weights": "sampler",
    "external_weights": "external",
}

router = APIRouter()


@router.get("/training_runs")
async def list_training_runs(
    service: Svc, tenant: Tenant, limit: int = 20, offset: int = 0, project_id: str | None = None
) -> dict[str, Any]:
    """A tenant's runs (of one project), newest first."""
    runs, sessions = service.registry.runs_of(tenant), service.registry.sessions
    runs = [run for run in runs if project_id in (None, sessions[run.session].project)]
    shown = [_run_record(service, run) for run in page(runs, offset, limit)]
    return {"training_runs": shown, "cursor": cursor(runs, offset, limit)}


@router.get("/training_runs/{run_id}")
async def get_training_run(run_id: str, service: Svc, tenant: Tenant) -> schemas.TrainingRun:
    """One run."""
    return _run_record(service, service.registry.run(tenant, run_id))


@router.get("/training_runs/{run_id}/checkpoints")
async def list_run_checkpoints(run_id: str, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """All checkpoints of a run, newest first."""
    run = service.registry.run(tenant, run_id)
    return {"checkpoints": [_checkpoint_record(saved) for saved in service.registry.checkpoints_of(tenant, run)]}


@router.delete("/training_runs/{run_id}/checkpoints/{kind}/{name}", status_code=204)
async def delete_checkpoint(run_id: str, kind: str, name: str, service: Svc, tenant: Tenant) -> None:
    """Delete a checkpoint, its files with it; samples that are being drawn from it still end."""
    saved = service.registry.checkpoint(tenant, f"tinker://{run_id}/{kind}/{name}")
    service.names.check_free(tenant, saved.path)
    await service.forget_checkpoint(saved)


@router.put("/training_runs/{run_id}/checkpoints/{kind}/{name}/ttl")
async def set_checkpoint_ttl(
    run_id: str, kind: str, name: str, body: schemas.Ttl, service: Svc, tenant: Tenant
) -> schemas.Checkpoint:
    """Let a checkpoint expire after so many seconds from now, or never."""
    saved = service.registry.checkpoint(tenant, f"tinker://{run_id}/{kind}/{name}")
    expires = expiry(body.ttl_seconds)
    if expires is not None:
        service.names.check_free(tenant, saved.path)
    await service.journal.write(
        Set("checkpoints", {"path": saved.path}, {"expires": None if expires is None else plain(expires)})
    )
    saved.expires = expires
    return _checkpoint_record(saved)


@router.get("/checkpoints")
async def list_checkpoints(service: Svc, tenant: Tenant, limit: int = 100, offset: int = 0) -> dict[str, Any]:
    """All checkpoints of a tenant, newest first."""
    everything = service.registry.checkpoints_of(tenant)
    shown = [_checkpoint_record(saved) for saved in page(everything, offset, limit)]
    return {"checkpoints": shown, "cursor": cursor(everything, offset, limit)}


@router.post("/weights_info")
async def weights_info(body: schemas.WeightsPath, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """What a checkpoint is made of."""
    shape = service.registry.readable(tenant, body.tinker_path).run.shape
    assert shape is not None  # a run that has saved anything has told its shape
    return {
        "base_model": service.engine.info.name,
        "is_lora": True,
        "lora_rank": shape.rank,
        "train_attn": shape.attention,
        "train_mlp": shape.mlp,
        "train_unembed": shape.unembed,
    }


def _run_record(service: Service, run: Run) -> schemas.TrainingRun:
    return schemas.TrainingRun(
        training_run_id=run.id,
        base_model=service.engine.info.name,
        model_owner=run.tenant,
        lora_rank=run.shape.rank if run.shape is not None else None,
        last_request_time=run.touched,
        last_checkpoint=_newest(service, run, "weights"),
        last_sampler_checkpoint=_newest(service, run, "sampler_weights"),
        user_metadata=text_values(run.metadata),
    )


def _newest(service: Service, run: Run, kind: CheckpointKind) -> schemas.Checkpoint | None:
    own = service.registry.checkpoints_of(run.tenant, run)
    return next((_checkpoint_record(saved) for saved in own if saved.kind == kind), None)


def _checkpoint_record(saved: Checkpoint) -> schemas.Checkpoint:
    return schemas.Checkpoint(
        checkpoint_id=saved.id,
        checkpoint_type=TYPES[saved.kind],
        time=saved.time,
        tinker_path=saved.path,
        size_bytes=saved.size,
        public=saved.public,
        user_metadata=text_values(saved.metadata),
        expires_at=saved.expires,
    )
