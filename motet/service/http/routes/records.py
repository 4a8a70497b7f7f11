"""Records of answers, what a tenant chose of them, and the deletion of a person's data."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Query

from motet.service.feedback.answers import unpacked
from motet.service.feedback.people import Affected
from motet.service.feedback.recording import Recording
from motet.service.http.deps import Svc, Tenant
from motet.service.http.service import Service
from motet.service.wire import feedback as wire

MOST = 1000  # in one page
router = APIRouter()


@router.get("/answers")
async def read_answers(
    service: Svc,
    tenant: Tenant,
    after: int = Query(0, ge=0, lt=2**63),
    limit: int = Query(100, ge=1, le=MOST),
    name: str | None = None,
    version: int | None = Query(None, ge=1, lt=2**63),
    user: str | None = None,
) -> dict[str, Any]:
    """Answers that were recorded, in their order, from a cursor on."""
    named = (("name", name), ("version", version), ("user", user))
    where = {"tenant": tenant} | {column: value for column, value in named if value is not None}
    found = await service.records.answers(where, after, limit)
    return {"answers": found, "next": found[-1]["number"] if found else after}


@router.get("/answers/{response_id}")
async def show_answer(response_id: str, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """One of them."""
    return unpacked(await service.records.book.answer(tenant, response_id))


@router.get("/recording")
async def show_recording(service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Are the caller's answers recorded, and for how long?"""
    return vars(service.records.recordings.of(tenant))


@router.put("/recording")
async def choose_recording(body: wire.Recording, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """It counts from the next answer on."""
    await service.records.recordings.choose(tenant, Recording(body.store, body.keep_days))
    return vars(service.records.recordings.of(tenant))


@router.delete("/people/{user:path}")
async def forget_person(user: str, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Delete a person's data; tells which versions learned from it, and from what to make them again."""
    gone = await service.records.people.forget(tenant, user)
    return {
        "user": user,
        "answers": gone.answers,
        "feedback": gone.feedback,
        "versions": [vars(one) | {"serving": _serves(service, tenant, one)} for one in gone.versions],
        "rebuild": [{"name": one.name, "from": one.parent, "items": one.items} for one in gone.rebuilds],
    }


def _serves(service: Service, tenant: str, one: Affected) -> bool:
    return any(
        name.serving is not None and name.version(name.serving).path == one.path for name in service.names.of(tenant)
    )
