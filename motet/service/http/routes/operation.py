"""The state of the server for whoever runs it: what `motet status` shows."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

from fastapi import APIRouter

from motet import __version__
from motet.service.http.deps import Svc, Tenant, Watched
from motet.service.http.metered import resident_bytes
from motet.service.http.metrics import service_counts
from motet.service.http.service import Service

OTHERS = "others"

router = APIRouter()


@router.get("/status")
async def status(service: Svc, watched: Watched, tenant: Tenant) -> dict[str, Any]:
    """Tenants, runs, queues, lanes and memory, within a second whatever the engine does.

    With keys, other tenants are counted together; without any, the machine is one person's and each is told.
    """
    await watched.reading.refresh()
    return {
        "version": __version__,
        "base_model": service.engine.info.name,
        "dtype": service.engine.info.dtype,
        "up_seconds": time.monotonic() - watched.began,
        "stopping": watched.drain.begun,
        "engine_up": watched.reading.up,
        "engine": watched.reading.values,
        "service": service_counts(service),
        "trained_tokens": watched.meters.trained_tokens,
        "memory_bytes": {"service": resident_bytes(os.getpid()), "engine": watched.engine_memory_bytes()},
        "tenants": _tenants(service, tenant),
        "runs": [
            {"run": run.id, "name": run.name, "tenant": run.tenant, "touched": run.touched.isoformat()}
            for run in service.registry.runs_of(tenant)
        ],
    }


def _tenants(service: Service, asking: str) -> list[dict[str, Any]]:
    """How much each holds; the one who asks comes first."""

    def told(tenant: str) -> str:
        return tenant if service.keys.open or tenant == asking else OTHERS

    registry = service.registry
    sessions = Counter(told(session.tenant) for session in registry.sessions.values() if not session.finished)
    runs = Counter(told(run.tenant) for run in registry.runs.values())
    samplers = Counter(told(sampler.tenant) for sampler in registry.samplers.values())
    names = [asking, *sorted({*sessions, *runs, *samplers} - {asking})]
    return [
        {"tenant": name, "sessions": sessions[name], "runs": runs[name], "samplers": samplers[name]} for name in names
    ]
