"""What a tenant has used: honest counters, without a price."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from fastapi import APIRouter
from pydantic import AwareDatetime

from motet.service.http.counters import HOUR
from motet.service.http.deps import Svc, Tenant
from motet.service.http.registry import Checkpoint, now
from motet.service.wire.billing import GIGABYTE, StorageItem, UsageEvent, event_info, read_window
from motet.service.wire.records import text_values

router = APIRouter()


@router.get("/billing/usage/events")
async def usage_events(
    starting_on: AwareDatetime, ending_before: AwareDatetime, service: Svc, tenant: Tenant
) -> dict[str, Any]:
    """Tokens trained, prompted and sampled, checkpoints and gigabyte-hours, by hour and session."""
    read_window(starting_on, ending_before, now())
    sessions, events = service.registry.sessions, list[UsageEvent]()
    for used in service.usage.between(tenant, starting_on, ending_before):
        session = sessions.get(used.bucket.session or "")
        events.append(
            UsageEvent(
                bucket_start=used.bucket.start,
                bucket_end=used.bucket.start + HOUR,
                base_model=service.engine.info.name,
                user_id=tenant,
                session_id=used.bucket.session,
                project_id=None if session is None else session.project,
                event_info=event_info(used.bucket.measure, used.amount),
            )
        )
    named = {event.session_id for event in events} & sessions.keys()
    about = {name: {"user_metadata": text_values(sessions[name].metadata)} for name in named if name is not None}
    return {"data": events, "sessions": about}


@router.get("/billing/usage/checkpoints/current")
async def current_storage(service: Svc, tenant: Tenant, project_id: str | None = None) -> dict[str, Any]:
    """Checkpoints that are kept now, by project."""
    by_project: dict[str, list[Checkpoint]] = defaultdict(list)
    for saved in service.registry.checkpoints_of(tenant):
        project = service.registry.sessions[saved.run.session].project
        if project_id in (None, project):
            by_project[project].append(saved)
    items = []
    for project, kept in by_project.items():
        size = sum(saved.size for saved in kept)
        items.append(
            StorageItem(
                project_id=project,
                org_user_urn=tenant,
                checkpoint_count=len(kept),
                size_bytes=size,
                size_gigabytes=size / GIGABYTE,
            )
        )
    return {"data": items}
