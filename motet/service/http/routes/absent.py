"""What the Tinker API has and this server has not, each with what to do instead."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from motet.errors import BadRequest
from motet.service.http.deps import Svc, Tenant

router = APIRouter()


@router.post("/create_custom_loss")
async def create_custom_loss(tenant: Tenant) -> None:
    """Custom losses run on the client."""
    raise BadRequest("custom losses run on the client here: call forward_backward_custom, without a loss of the server")


@router.post("/forward")
async def forward(tenant: Tenant) -> None:
    """The form of SDKs before 0.25."""
    raise BadRequest("forward is forward_backward with forward_only since SDK 0.25: use tinker 0.38")


@router.post("/unload_model")
async def unload_model(tenant: Tenant) -> None:
    """Gone from the SDK."""
    raise BadRequest("runs leave with their session: call close() on the ServiceClient")


@router.post("/auth/token")
async def auth_token(tenant: Tenant) -> None:
    """Keys are enough."""
    raise BadRequest("this server gives no tokens: send your API key with every request")


@router.get("/auth/apikey/me")
async def own_key(service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Whose key it is."""
    owner = {"org_details": {"name": "motet"}, "user_details": {"email": tenant}}
    return {"key_id": 0, "name": tenant, "note": "", "details": owner}


@router.delete("/auth/apikey/me")
async def delete_own_key(tenant: Tenant) -> None:
    """Keys are the operator's."""
    raise BadRequest("keys are revoked by whoever runs this server, with `motet keys`")


@router.get("/audit")
async def audit_log(tenant: Tenant) -> None:
    """None is kept."""
    raise BadRequest("this server keeps no audit log; its log on stderr has every request with its id")


@router.get("/sessions/{session_id}/trace_export")
async def export_trace(session_id: str, service: Svc, tenant: Tenant) -> dict[str, str]:
    """No traces are recorded; the form is that of a failed export, which ends the SDK's polling."""
    service.registry.session(tenant, session_id)
    return {"status": "failed", "error": "this server records no traces: see /motet/v1/stats and /metrics"}
