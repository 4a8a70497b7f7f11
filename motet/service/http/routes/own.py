"""Motet's own routes, under /motet/v1: what the Tinker API has no word for."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from motet.engine.core.requests import Stats
from motet.service.http.deps import Svc, Tenant
from motet.service.http.reading import seen_by

router = APIRouter()


@router.get("/stats")
async def stats(service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Counters and gauges of the engine and of the service; of single runs, those of own ones."""
    held = sum(run.order.held for run in service.registry.runs.values())
    here = {**service.promises.sizes(), "requests_held_for_order": held, "engine_generation": service.engine.generation}
    own = {run.id for run in service.registry.runs_of(tenant)}
    return {"engine": seen_by(own, await service.engine.call(Stats())), "service": here}


@router.get("/versions")
async def versions(service: Svc, tenant: Tenant, run: str | None = None) -> dict[str, Any]:
    """Versions that a tenant's runs (or one run) published, oldest first, with the time publishing took."""
    runs = service.registry.runs_of(tenant) if run is None else [service.registry.run(tenant, run)]
    found = [
        {
            "run": owner.id,
            "name": owner.name,
            "version": version.result.version,
            "number": version.result.number,
            "content_hash": version.result.content_hash,
            "publish_seconds": version.result.seconds,
            "time": version.time,
        }
        for owner in runs
        for version in owner.versions
    ]
    return {"versions": sorted(found, key=lambda version: version["time"])}
