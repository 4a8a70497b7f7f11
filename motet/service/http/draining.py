"""An orderly end: new work is told to come again, what is in hand is finished, up to a bound."""

from __future__ import annotations

import asyncio
import time

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from motet.service.http.service import Service

LOOK_SECONDS = 0.05  # between two looks at what is still in hand
RETRY_SECONDS = 5
STILL_SERVED = (  # posts that begin nothing
    "/api/v1/retrieve_future",
    "/api/v1/retrieve_futures",
    "/api/v1/cancel_future",
    "/api/v1/session_heartbeat",
    "/api/v1/telemetry",
)


class Drain:
    """Whether the server is on its way out, and what it still has in hand."""

    def __init__(self, service: Service) -> None:
        self.begun = False
        self._service = service
        self._hurry = asyncio.Event()

    @property
    def in_hand(self) -> int:
        """Accepted requests that will still be done: those that wait for an earlier one never will, from now on."""
        return self._service.holdings.in_hand

    def hurry(self) -> None:
        """Somebody asked a second time: leave the rest undone."""
        self._hurry.set()

    async def run(self, seconds: float) -> int:
        """Take nothing new, and wait until all is done, for `seconds` at most. Gives what is left undone."""
        self.begun = True
        deadline = time.monotonic() + seconds
        while self.in_hand and time.monotonic() < deadline and not self._hurry.is_set():
            await asyncio.sleep(LOOK_SECONDS)
        return self.in_hand


class DrainLayer:
    """An ASGI layer that answers 503 to new work once the drain has begun. Reading goes on."""

    def __init__(self, app: ASGIApp, drain: Drain) -> None:
        self._app = app
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._drain.begun and scope["method"] == "POST" and scope["path"] not in STILL_SERVED:
            told = {"error": "the server is stopping: send this again in a moment", "category": "server"}
            answer = JSONResponse(told, 503, {"retry-after": str(RETRY_SECONDS)})
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)
