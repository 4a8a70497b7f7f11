"""Every request has an id, in the X-Request-ID header and in the log; one line tells how it went."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from motet.logs import Fields

GIVEN_ID = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)
LONGEST_PATH = 300
QUIET = ("/api/v1/healthz", "/api/v1/session_heartbeat", "/api/v1/telemetry", "/metrics")  # told at debug only
PERSONAL = "/motet/v1/people/"  # whose path says who: told as it is declared
HEADER = "x-request-id"
log = logging.getLogger(__name__)
current_id: ContextVar[str | None] = ContextVar("current_id", default=None)


@dataclass(frozen=True)
class Served:
    """One request that was answered, as logs and metrics see it."""

    method: str
    route: str  # as it is declared: /api/v1/training_runs/{run_id}; "none" where no route fits
    status: int
    seconds: float


def log_context() -> Fields:
    """The id of the request that is being worked on, where there is one."""
    request_id = current_id.get()
    return {} if request_id is None else {"x_request_id": request_id}


class RequestLog:
    """An ASGI layer that names each request, logs it, and hands it to `observe`. Headers, queries, bodies stay untold.

    `routes` tells the declared path of each endpoint.
    """

    def __init__(self, app: ASGIApp, routes: Mapping[Any, str], observe: Callable[[Served], None]) -> None:
        self._app = app
        self._routes = routes
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request_id = given if GIVEN_ID.fullmatch(given) else secrets.token_hex(8)
        current_id.set(request_id)  # for this request's task, and for those that it starts
        status = 500  # what a fault of ours is answered with, further out than this layer

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        began = time.perf_counter()
        try:
            await self._app(scope, receive, named)
        finally:
            route = self._routes.get(scope.get("endpoint"), "none")
            served = Served(scope["method"], route, status, time.perf_counter() - began)
            self._observe(served)
            path = scope["raw_path"].decode("ascii", "replace")
            _tell(route if path.startswith(PERSONAL) else path, served)


def _tell(path: str, served: Served) -> None:
    """`path` is as it was sent, still escaped: it cannot break the line."""
    level = logging.DEBUG if path in QUIET else logging.INFO
    fields = {"status": served.status, "milliseconds": round(1000 * served.seconds, 1)}
    log.log(level, "%s %s", served.method, path[:LONGEST_PATH], extra={"fields": fields})
