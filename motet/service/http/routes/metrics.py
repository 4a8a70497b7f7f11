"""What Prometheus asks for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from motet.service.http.deps import Svc, Watched

router = APIRouter()


@router.get("/metrics")
async def metrics(
    service: Svc,
    watched: Watched,
    x_api_key: Annotated[str | None, Header()] = None,
    authorization: Annotated[str | None, Header()] = None,
) -> Response:
    """Metrics in Prometheus' text form, within a second whatever the engine does. A bearer key does too."""
    if not service.keys.open:
        bearer = (authorization or "").removeprefix("Bearer ").strip()
        service.keys.tenant(x_api_key or bearer)
    await watched.reading.refresh()
    return Response(generate_latest(watched.meters.registry), media_type=CONTENT_TYPE_LATEST)
