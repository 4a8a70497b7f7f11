"""Results of requests that were accepted."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException
from fastapi.responses import JSONResponse, Response

from motet.service.http.completions import Target
from motet.service.http.deps import Svc, Tenant, Watched
from motet.service.http.pausing import queue_state
from motet.service.wire import schemas

router = APIRouter()


@router.post("/retrieve_future")
async def retrieve_future(body: schemas.RequestId, service: Svc, watched: Watched, tenant: Tenant) -> Response:
    """Wait for a result, and read it as often as one likes. 408: not yet, ask again at once. 410: there is none."""
    promise = service.promises.find(tenant, body.request_id)
    if promise is None:
        raise HTTPException(410, f"there is no result for {body.request_id!r}: it was let go, or never asked for")
    reply = await service.promises.wait(promise)
    if reply is None:
        paused = await queue_state(promise, watched.reading)
        told = {"queue_state": paused.state, "queue_state_reason": paused.reason}
        return JSONResponse({"type": "try_again", "request_id": promise.id, **told}, 408)
    return Response(reply.body, media_type=reply.media)


@router.post("/cancel_future")
async def cancel_future(body: schemas.RequestId, service: Svc, tenant: Tenant) -> dict[str, str]:
    """Take a sampling request back; others, and those that are done, are left alone."""
    promise = service.promises.find(tenant, body.request_id)
    if promise is not None:
        service.promises.cancel(promise)
    return {"status": "ok"}


@router.post("/retrieve_futures")
async def retrieve_futures(body: schemas.RetrieveFutures, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """Which of a sampler's requests have ended since the cursor; waits for the first. Results are fetched apart."""
    sampler = service.registry.sampler(tenant, body.target.sampling_session_id)
    longest = service.settings.poll_seconds
    seconds = longest if body.timeout is None else min(max(body.timeout, 0.0), longest)
    target = Target(sampler.id, body.target.cloned_sampler_id)
    found = await service.completions.after(target, body.prev_cursor, seconds)
    told = [
        {"state": "failed", "request_id": one.request_id}
        if one.failed
        else {"state": "finished", "request_id": one.request_id, "response_payload_uncompressed_size": one.size}
        for one in found
    ]
    return {"completions": told, "cursor": found[-1].number if found else body.prev_cursor}


@router.post("/join_sampling_session")
async def join_sampling_session(body: schemas.SamplingSessionId, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """A number of its own for one more client of a sampler: its seq_ids begin at so many billions."""
    service.registry.sampler(tenant, body.sampling_session_id)
    return {"type": "join_sampling_session", "client_counter": service.completions.join()}
