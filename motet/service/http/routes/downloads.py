"""Checkpoints out of the server: links for those who may read one. What they open is in `files`."""

from __future__ import annotations

from datetime import UTC
from email.utils import format_datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from motet.errors import BadRequest
from motet.service.http.archives import files_of
from motet.service.http.deps import Svc, Tenant
from motet.service.http.links import ARCHIVE

router = APIRouter()


@router.get("/training_runs/{run_id}/checkpoints/{kind}/{name}/external_weights_urls")
async def external_weights_urls(
    run_id: str, kind: str, name: str, request: Request, service: Svc, tenant: Tenant
) -> dict[str, Any]:
    """A link for each file of an export."""
    saved = service.registry.readable(tenant, f"tinker://{run_id}/{kind}/{name}")
    if saved.kind != "external_weights":
        raise BadRequest(f"{saved.path} is no export: make one with save_weights_external()")
    links = {file: service.links.make(saved, file) for file in files_of(saved.folder)}
    urls = {file: f"{request.base_url}{link.url}" for file, link in links.items()}
    return {"urls": urls, "expires": min(link.expires for link in links.values())}


@router.get("/training_runs/{run_id}/checkpoints/{kind}/{name}/archive")
async def checkpoint_archive(
    run_id: str, kind: str, name: str, request: Request, service: Svc, tenant: Tenant
) -> JSONResponse:
    """All files of a checkpoint as one tar: 302 to a link, as SDKs before 0.38 want it."""
    link = service.links.make(service.registry.readable(tenant, f"tinker://{run_id}/{kind}/{name}"), ARCHIVE)
    url = f"{request.base_url}{link.url}"
    headers = {"Location": url, "Expires": format_datetime(link.expires.astimezone(UTC), usegmt=True)}
    return JSONResponse({"url": url, "expires": link.expires.isoformat()}, 302, headers)
