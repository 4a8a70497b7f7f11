"""The gate: every request says who it is before anything else of it is read, and keeps to its tenant's pace.

What comes faster than a tenant's requests a second waits for its turn; what would wait too long is told to come again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from motet.errors import Busy, MotetError
from motet.service.http.service import Service

KEYLESS = ("/api/v1/healthz", "/metrics")  # metrics look at the key themselves: Prometheus sends it otherwise
OPENED_BY_LINK = "/motet/v1/files/"  # the link is signed
UNPACED = ("/api/v1/session_heartbeat",)  # is not sent again by the SDK, and costs nothing
LONGEST_WAIT = 2.0  # seconds
MAX_TURNS = 10_000  # tenants whose next turn is remembered


class Pace:
    """When each tenant's next request may pass. A tenant that was silent may send a second's worth at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next: dict[str, float] = {}  # by tenant; those of the past mean nothing

    def wait(self, tenant: str, per_second: float) -> float:
        """Take the next turn: seconds until it comes. Busy where that is too long; then no turn is taken."""
        now = self._clock()
        turn = max(self._next.get(tenant, 0.0), now - 1.0)  # up to a second's worth of turns in the past is saved up
        if turn - now > LONGEST_WAIT:
            raise Busy(f"more than {per_second:g} requests a second: send this one again in a moment")
        if len(self._next) >= MAX_TURNS:
            self._next = {known: at for known, at in self._next.items() if at > now - 1.0}
        self._next[tenant] = turn + 1.0 / per_second
        return max(turn - now, 0.0)


class Gate:
    """An ASGI layer: the tenant is in `request.state.tenant` behind it. `answer` makes an error's response."""

    def __init__(
        self, app: ASGIApp, service: Service, answer: Callable[[Request, Exception], Awaitable[Response]]
    ) -> None:
        self._app = app
        self._service = service
        self._answer = answer
        self._pace = Pace()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _keyless(scope["path"]):
            try:
                scope.setdefault("state", {})["tenant"] = await self._enter(scope)
            except MotetError as error:
                await (await self._answer(Request(scope), error))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _enter(self, scope: Scope) -> str:
        tenant = self._service.keys.tenant(key_of(Headers(scope=scope)))
        if scope["path"] not in UNPACED:
            seconds = self._pace.wait(tenant, self._service.holdings.quotas(tenant).requests_per_second)
            if seconds:
                await asyncio.sleep(seconds)
        return tenant


def key_of(headers: Headers) -> str | None:
    """The API key: in X-API-Key as the Tinker SDK sends it, or as a bearer's token as OpenAI's clients do."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return headers.get("x-api-key") or (token.strip() if kind.lower() == "bearer" else None)


def _keyless(path: str) -> bool:
    return path in KEYLESS or path.startswith(OPENED_BY_LINK)
