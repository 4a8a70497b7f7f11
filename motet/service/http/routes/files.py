"""What a signed link opens, without a key. See `links`."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import FileResponse, Response, StreamingResponse

from motet.errors import NotFound
from motet.service.http.archives import files_of, read_tar, tar_size
from motet.service.http.deps import Svc
from motet.service.http.links import ARCHIVE

router = APIRouter()


@router.get("/files/{run_id}/{kind}/{name}/{file:path}")
async def open_file(
    run_id: str, kind: str, name: str, file: str, expires: int, signature: str, service: Svc
) -> Response:
    """One file of a checkpoint, or all as a tar, for whoever holds the link."""
    service.links.check(run_id, f"{kind}/{name}", file, expires, signature)
    saved = service.registry.checkpoints.get(f"tinker://{run_id}/{kind}/{name}")
    if saved is None or saved.expired or file not in (ARCHIVE, *files_of(saved.folder)):
        raise NotFound("what this link opened is gone")
    if file != ARCHIVE:
        return FileResponse(saved.folder / file)
    size = {"Content-Length": str(tar_size(saved.folder))}
    return StreamingResponse(read_tar(saved.folder), media_type="application/x-tar", headers=size)
