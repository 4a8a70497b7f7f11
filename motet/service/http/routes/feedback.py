"""Feedback, as clients say it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from fastapi import APIRouter

from motet.service.feedback.items import Offer, Past, digest_of
from motet.service.http.deps import Svc, Tenant
from motet.service.wire import feedback as wire

router = APIRouter()


@router.post("/feedback")
async def give_feedback(body: wire.Feedback, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Say something of an answer; it is on the disk before it is answered."""
    got = await service.records.book.give(tenant, _offer(body))
    return {
        "object": "feedback",
        "id": got.id,
        "number": got.number,
        "response_id": got.answer,
        "created": got.time,
        "duplicate": got.duplicate,
        "quarantine": got.quarantine,
    }


def _offer(body: wire.Feedback) -> Offer:
    past = None
    if body.past is not None:
        messages = [one.model_dump(mode="json", exclude_none=True) for one in body.past.messages]
        past = Past(body.past.model, messages, body.past.tools, body.past.user, body.past.conversation)
    digest = digest_of(body.model_dump(mode="json", exclude={"id"}))
    name = uuid4().hex if body.id is None else body.id
    return Offer(name, body.response_id, past, body.choice, body.source, body.said, digest)
