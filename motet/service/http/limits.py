"""Bodies are bounded before anything reads them: their bytes, packed and unpacked, and how deep and wide JSON nests."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re

import zstandard
from fastapi import HTTPException, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from motet.errors import BadRequest

MIB = 1024**2
MAX_JSON_BYTES = 8 * MIB  # a prompt of a million tokens
MAX_DEPTH = 32
MAX_GROUPS = 65_536  # lists and objects in one body
MAX_WINDOW = 64 * MIB  # memory that a zstd frame may ask for; python's `compress` asks for up to the content's size
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
BRACKET = re.compile(rb"[\[\]{}]")
SUSPECT = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)|\xed[\xa0-\xbf]|\d{19}")
HALF = re.compile("[\ud800-\udfff]")
BINARY = ("/api/v1/forward_backward",)  # routes whose body is no JSON, whatever its content type says


class UnfitValue(HTTPException):
    """JSON with a value that nothing here can take: 400. `content` is the body as it was read."""

    def __init__(self, told: str, content: object) -> None:
        super().__init__(400, told)
        self.content = content


def too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than {limit} bytes: send it in smaller pieces")


class BodyLimit:
    """An ASGI layer that stops reading a body at `limit` bytes, and JSON sooner and where it nests too far."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parsed = scope["path"] not in BINARY
        limit = min(self._limit, MAX_JSON_BYTES) if parsed else self._limit
        read = 0
        pieces: list[bytes] = []

        async def bounded() -> Message:
            nonlocal read
            message = await receive()
            piece = message.get("body", b"")
            read += len(piece)
            if read > limit:
                raise too_large(limit)
            if parsed and message["type"] == "http.request":
                pieces.append(piece)
                if not message.get("more_body", False):
                    check_json(b"".join(pieces))
                    pieces.clear()
            return message

        await self._app(scope, bounded, send)


def check_nesting(body: bytes) -> None:
    """HTTPException 400 where JSON has too many lists and objects, or too deep ones. What is no JSON may pass."""
    groups = body.count(b"[") + body.count(b"{")
    if groups <= MAX_DEPTH:
        return
    depth = found = 0
    for bracket in BRACKET.finditer(STRING.sub(b"", body)):
        opens = bracket[0] in b"[{"
        depth += 1 if opens else -1
        found += opens
        if depth > MAX_DEPTH or found > MAX_GROUPS:
            raise HTTPException(
                400,
                f"the body nests deeper than {MAX_DEPTH} or has more than {MAX_GROUPS} lists and objects: send less",
            )


def check_json(body: bytes) -> None:
    """HTTPException 400 where a body nests too far; UnfitValue where nothing here takes one of its values."""
    if b"\x00" in body:
        raise HTTPException(400, "the body is no JSON in UTF-8")
    check_nesting(body)
    if SUSPECT.search(body):
        with contextlib.suppress(ValueError):  # no JSON: whoever parses it says so
            content = json.loads(body)
            if (wrong := _unfit(content)) is not None:
                raise UnfitValue(wrong, content)


def _unfit(value: object) -> str | None:
    """What is wrong with a value: integers beyond 64 bits, and texts with NUL or half a character."""
    match value:
        case str() if "\x00" in value or HALF.search(value):
            return f"the text {value[:40]!r} holds NUL or half a character: leave it out"
        case int() if not -(2**63) <= value < 2**63:
            return "the body has an integer that does not fit 64 bits"
        case list():
            return next(filter(None, map(_unfit, value)), None)
        case dict():
            return next(filter(None, map(_unfit, [*value, *value.values()])), None)
    return None


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body, unpacked where it is zstd; at most `limit` bytes either way."""
    body = await request.body()
    encoding = request.headers.get("content-encoding", "identity")
    if encoding == "identity":
        return body
    if encoding != "zstd":
        raise HTTPException(415, f"the content encoding {encoding!r} is not understood: send zstd, or none")
    return await asyncio.to_thread(unpack, body, limit)


def unpack(body: bytes, limit: int) -> bytes:
    """A zstd body's content. BadRequest: it is none; HTTPException 413: it is too large, read only so far."""
    try:
        unpacked = (
            zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).stream_reader(io.BytesIO(body)).read(limit + 1)
        )
    except zstandard.ZstdError as error:
        raise BadRequest(f"the body is no zstd: {error}") from None
    if len(unpacked) > limit:
        raise too_large(limit)
    return unpacked
