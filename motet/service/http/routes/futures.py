"""Results of requests that were accepted."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException
from fastapi.responses import JSONResponse, Response

from motet.service.http.deps import Svc, Tenant
from motet.service.wire import schemas

router = APIRouter()


@router.post("/retrieve_future")
async def retrieve_future(body: schemas.RequestId, service: Svc, tenant: Tenant) -> Response:
    """Wait for a result, and read it as often as one likes. 408: not yet, ask again at once. 410: there is none."""
    promise = service.promises.find(tenant, body.request_id)
    if promise is None:
        raise HTTPException(410, f"there is no result for {body.request_id!r}: it was let go, or never asked for")
    reply = await service.promises.wait(promise)
    if reply is None:
        return JSONResponse({"type": "try_again", "request_id": promise.id, "queue_state": "active"}, 408)
    return Response(reply.body, media_type=reply.media)


@router.post("/cancel_future")
async def cancel_future(body: schemas.RequestId, service: Svc, tenant: Tenant) -> dict[str, str]:
    """Take a sampling request back; others, and those that are done, are left alone."""
    promise = service.promises.find(tenant, body.request_id)
    if promise is not None:
        service.promises.cancel(promise)
    return {"status": "ok"}
