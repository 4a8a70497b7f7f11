"""Promises of results: made when a request is accepted, awaited by long polls, kept for a while after they are read.

Memory is bounded: by the requests on their way and their bodies, and by the bytes of results. Results that were read go
first, oldest first; then those that nobody came for, of the tenant that leaves the most lying. Nothing polls.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from motet.errors import Busy, Cancelled, MotetError, UserError
from motet.service.http.lines import Place
from motet.service.http.results import Results
from motet.service.http.settings import ServiceSettings

PROTOBUF = "application/x-protobuf"
JSON = "application/json"


@dataclass(frozen=True)
class Reply:
    """A finished request as it goes out."""

    body: bytes
    media: str = JSON
    failed: str | None = None  # the kind of error that it tells


def json_reply(content: dict[str, Any]) -> Reply:
    return Reply(json.dumps(content).encode())


def failure(error: BaseException) -> Reply:
    """A failed request: 200 with the message and whose fault it is."""
    if isinstance(error, asyncio.CancelledError):
        error = Cancelled("the request was cancelled")
    user = isinstance(error, UserError | Cancelled)
    message = str(error) if isinstance(error, MotetError) else f"an internal fault: {type(error).__name__}: {error}"
    told = json_reply({"error": message, "category": "user" if user else "server"})
    return replace(told, failed=type(error).__name__)


@dataclass(eq=False)
class Promise:
    """One request's result, now or later."""

    id: str
    tenant: str
    size: int  # bytes of the request while it is on its way
    cancellable: bool
    accepted: asyncio.Event = field(default_factory=asyncio.Event)  # or refused, and gone
    done: asyncio.Event = field(default_factory=asyncio.Event)
    reply: Reply | None = None
    on_cancel: Callable[[], None] | None = None
    since: float = 0.0  # when its result came, or was read last; time.monotonic()
    place: Place | None = None  # in its tenant's queue, while it is on its way

    def begin(self) -> None:
        """Its turn has come: it ends without anything more from its client."""
        if self.place is not None:
            self.place.begin()

    def leave_line(self) -> None:
        """It is on its way no more."""
        if self.place is not None:
            self.place.leave()
            self.place = None


class Promises:
    """All promises of a server, by id."""

    def __init__(
        self,
        settings: ServiceSettings,
        on_forget: Callable[[str], None],
        on_done: Callable[[Promise], None] = lambda promise: None,
    ) -> None:
        """`on_done` hears of each result, `on_forget` the id of each that is let go."""
        self.failures: Counter[str] = Counter()  # promises that were kept with an error, by its kind
        self._settings = settings
        self._on_forget = on_forget
        self._on_done = on_done
        self._open: dict[str, Promise] = {}  # on their way
        self._results = Results()
        self._pending_bytes = 0

    def find(self, tenant: str, request_id: str) -> Promise | None:
        """A tenant's own promise; None for others', and for those that have gone."""
        promise = self._open.get(request_id) or self._results.find(tenant, request_id)
        return promise if promise is not None and promise.tenant == tenant else None

    def make(self, tenant: str, request_id: str, size: int, cancellable: bool = False) -> Promise:
        """Accept a request. Busy where no more may be on their way."""
        self._forget()
        pending = len(self._open)
        if pending >= self._settings.max_pending or self._pending_bytes + size > self._settings.max_pending_bytes:
            raise Busy(f"{pending} requests are on their way already: send this one again in a moment")
        return self.open(tenant, request_id, size, cancellable)

    def open(self, tenant: str, request_id: str, size: int, cancellable: bool = False) -> Promise:
        """A promise without a look at the bounds: of a request that was accepted before."""
        promise = self._open[request_id] = Promise(request_id, tenant, size, cancellable)
        self._pending_bytes += size
        return promise

    def discard(self, promise: Promise) -> None:
        """The request could not be accepted after all."""
        del self._open[promise.id]
        self._pending_bytes -= promise.size
        promise.leave_line()
        promise.accepted.set()

    def fulfil(self, promise: Promise, reply: Reply) -> None:
        """The result is here."""
        promise.reply = reply
        promise.on_cancel = None
        promise.leave_line()
        if reply.failed is not None:
            self.failures[reply.failed] += 1
        del self._open[promise.id]
        self._pending_bytes -= promise.size
        self._results.add(promise)
        promise.done.set()
        self._on_done(promise)
        self._forget()

    def keep(self, tenant: str, request_id: str, reply: Reply) -> None:
        """A result that an earlier server had: as if it had been read just now."""
        promise = Promise(request_id, tenant, 0, cancellable=False, reply=reply)
        promise.accepted.set()
        promise.done.set()
        self._results.add(promise)
        self._results.read(promise)
        self._on_done(promise)

    def cancel(self, promise: Promise) -> None:
        """Take a request back, where that may be and it is still on its way."""
        if promise.cancellable and promise.on_cancel is not None:
            promise.on_cancel()

    async def wait(self, promise: Promise) -> Reply | None:
        """The result, or None where it takes longer than one poll may."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(promise.done.wait(), self._settings.poll_seconds)
        if promise.reply is not None:
            self._results.read(promise)
        return promise.reply

    def close(self) -> None:
        """The server stops: every waiting poll is answered now, with nothing."""
        for promise in self._open.values():
            promise.done.set()

    def sizes(self) -> dict[str, float]:
        return {
            "requests_pending": len(self._open),
            "requests_pending_bytes": self._pending_bytes,
            "results_kept": self._results.count,
            "results_kept_bytes": self._results.bytes,
        }

    def _forget(self) -> None:
        """Let go what is too old, and what is too much."""
        settings = self._settings
        for promise in self._results.let_go(settings.keep_seconds, settings.unread_seconds, settings.max_result_bytes):
            self._on_forget(promise.id)
