"""Start-up of a client and its session: configuration, heartbeat, goodbye."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException

from motet.service.catalog.changes import Set
from motet.service.http.deps import Svc, Tenant
from motet.service.http.registry import DEFAULT_PROJECT, now
from motet.service.http.searching import search
from motet.service.wire import schemas, visits
from motet.service.wire.records import page, text_values

router = APIRouter()


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Is the server there? It answers whatever the engine is doing."""
    return {"status": "ok"}


@router.post("/client/config")
async def client_config(tenant: Tenant) -> dict[str, Any]:
    """Flags that the SDK reads once; what is not here keeps the SDK's default."""
    return {"pjwt_auth_enabled": False, "credential_default_source": "api_key", "parallel_fwdbwd_chunks": True}


@router.post("/client/dynamic_config")
async def client_dynamic_config(tenant: Tenant) -> dict[str, Any]:
    """Flags that the SDK reads again and again."""
    return {"refresh_interval_sec": 300, "sample_cancel_enabled": True}


@router.post("/telemetry")
async def telemetry(tenant: Tenant) -> dict[str, str]:
    """The SDK's telemetry is accepted and dropped."""
    return {"status": "accepted"}


@router.get("/get_server_capabilities")
async def get_server_capabilities(service: Svc, tenant: Tenant) -> dict[str, Any]:
    """The one base model; what draws from it (the SDK reads over that)."""
    info = service.engine.info
    model = {"model_name": info.name, "max_context_length": info.context, "trainable": True, "sampleable": True}
    return {"supported_models": [model], "motet.sampler": info.sampler}


@router.post("/create_session")
async def create_session(body: schemas.CreateSession, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Begin a session."""
    project = body.project_id or DEFAULT_PROJECT
    session = await service.open_session(tenant, body.user_metadata or {}, body.display_name, project)
    return {"type": "create_session", "session_id": session.id}


@router.post("/session_heartbeat")
async def session_heartbeat(body: schemas.SessionId, service: Svc, tenant: Tenant) -> dict[str, str]:
    """The client is still there. 410 once it has said goodbye, which stops the SDK's beat."""
    session = service.registry.session(tenant, body.session_id)
    if session.finished:
        raise HTTPException(410, "the session is finished")
    session.seen = now()
    return {"type": "session_heartbeat"}


@router.post("/sessions/{session_id}/finish")
async def finish_session(
    session_id: str, service: Svc, tenant: Tenant, body: visits.FinishSession | None = None
) -> dict[str, str]:
    """Goodbye: runs and nameless versions of the session leave the engine, checkpoints stay. The first one counts."""
    session = service.registry.session(tenant, session_id)
    await service.finish(session, (body or visits.FinishSession()).reason.type)
    return {"status": "ok"}


@router.get("/sessions")
async def list_sessions(service: Svc, tenant: Tenant, limit: int = 20, offset: int = 0) -> dict[str, Any]:
    """A tenant's sessions, newest first."""
    own = [session.id for session in service.registry.sessions.values() if session.tenant == tenant]
    return {"sessions": page(own[::-1], offset, limit)}


@router.post("/sessions/search")
async def search_sessions(body: visits.SearchSessions, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """A tenant's sessions that match, newest first, page by page."""
    shown, cursor = search(service.registry, tenant, body)
    return {"sessions": shown, "next_cursor": cursor}


@router.put("/sessions/{session_id}/project", status_code=204)
async def assign_project(session_id: str, body: visits.SessionProject, service: Svc, tenant: Tenant) -> None:
    """Move a session into a project. A project is a label here: nobody makes one, and it opens nothing."""
    session = service.registry.session(tenant, session_id)
    await service.journal.write(Set("sessions", {"id": session.id}, {"project": body.project_id}))
    session.project = body.project_id


@router.get("/sessions/{session_id}")
async def get_session(session_id: str, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """The runs and samplers of a session."""
    session = service.registry.session(tenant, session_id)
    return {
        "training_run_ids": session.runs,
        "sampler_ids": session.samplers,
        "user_metadata": text_values(session.metadata),
        "display_name": session.display_name,
    }
