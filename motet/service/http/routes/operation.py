"""The state of the server for whoever runs it: what `motet status` shows."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
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
        "engine": watched.reading.numbers.whole,
        "service": service_counts(service),
        "trained_tokens": watched.meters.trained_tokens,
        "memory_bytes": {"service": resident_bytes(os.getpid()), "engine": watched.engine_memory_bytes()},
        "tenants": _tenants(service, tenant, watched.reading.numbers.run_seconds),
        "runs": [
            {
                "run": run.id,
                "name": run.name,
                "touched": run.touched.isoformat(),
                "device_seconds": watched.reading.numbers.run_seconds.get(run.id, 0.0),
            }
            for run in service.registry.runs_of(tenant)
        ],
    }


def _tenants(service: Service, asking: str, run_seconds: Mapping[str, float]) -> list[dict[str, Any]]:
    """How much each holds, and device seconds of its runs; the one who asks comes first."""

    def told(tenant: str) -> str:
        return tenant if service.keys.open or tenant == asking else OTHERS

    registry = service.registry
    runs = [(told(run.tenant), run.id) for run in registry.runs.values()]
    counts = {
        "sessions": Counter(told(session.tenant) for session in registry.sessions.values() if not session.finished),
        "runs": Counter(tenant for tenant, _ in runs),
        "samplers": Counter(told(sampler.tenant) for sampler in registry.samplers.values()),
    }
    seconds: dict[str, float] = defaultdict(float)
    for tenant, run in runs:
        seconds[tenant] += run_seconds.get(run, 0.0)
    names = [asking, *sorted(set().union(*counts.values()) - {asking})]
    return [
        {"tenant": name, **{kind: count[name] for kind, count in counts.items()}, "device_seconds": seconds[name]}
        for name in names
    ]
