"""Bodies are bounded before anything reads them, packed and unpacked."""

from __future__ import annotations

import io

import zstandard
from fastapi import HTTPException, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from motet.errors import BadRequest


def too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than {limit} bytes: send it in smaller pieces")


class BodyLimit:
    """An ASGI layer that stops reading a body at `limit` bytes."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = self._limit

        async def bounded() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise too_large(self._limit)
            return message

        await self._app(scope, bounded, send)


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body, unpacked where it is zstd; at most `limit` bytes either way."""
    body = await request.body()
    encoding = request.headers.get("content-encoding", "identity")
    if encoding == "identity":
        return body
    if encoding != "zstd":
        raise HTTPException(415, f"the content encoding {encoding!r} is not understood: send zstd, or none")
    try:
        unpacked = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(io.BytesIO(body)).read(limit + 1)
    except zstandard.ZstdError as error:
        raise BadRequest(f"the body is no zstd: {error}") from None
    if len(unpacked) > limit:
        raise too_large(limit)
    return unpacked
