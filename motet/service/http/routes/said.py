"""What was said of answers, for whoever learns from it: read in order, put in quarantine."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Query

from motet.service.http.deps import Svc, Tenant
from motet.service.wire import feedback as wire

MOST = 1000  # in one page
router = APIRouter(prefix="/feedback")


@router.get("")
async def read_feedback(
    service: Svc,
    tenant: Tenant,
    after: int = Query(0, ge=0, lt=2**63),
    limit: int = Query(100, ge=1, le=MOST),
    name: str | None = None,
    version: int | None = Query(None, ge=1, lt=2**63),
    response_id: str | None = None,
    free: bool = False,
    quarantined: bool | None = None,
    answers: bool = False,
) -> dict[str, Any]:
    """What was said, in its order, from a cursor on."""
    where: dict[str, Any] = {"tenant": tenant}
    named = (("name", name), ("version", version), ("answer", response_id))
    where |= {column: value for column, value in named if value is not None}
    where |= {"training": None} if free else {}
    items = await service.records.items(where, quarantined, after, limit, answers)
    return {"items": items, "next": items[-1]["number"] if items else after}


@router.post("/quarantine")
async def set_quarantine(body: wire.Quarantine, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """No training takes these items; without a reason they are let out."""
    await service.records.book.quarantine(tenant, body.items, body.reason)
    return {"items": body.items, "quarantine": body.reason}
