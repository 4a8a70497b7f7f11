"""The engine's process: started, watched, started again when it dies."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import socket
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from typing import Any

from motet.engine.core.channel import EngineClient, OnPart
from motet.engine.core.requests import Request
from motet.engine.types import BaseInfo
from motet.errors import EngineAway, MotetError

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds before another start, doubled each time one fails
STOP_SECONDS = 10.0
log = logging.getLogger(__name__)


Entry = Callable[[socket.socket], None]  # what an engine's process runs: a function that a new process can import


@dataclass(frozen=True)
class Launched:
    """An engine's process that is warming up, and our end of the line to it."""

    process: SpawnProcess
    line: socket.socket


def launch(entry: Entry) -> Launched:
    """Start a process; it warms up while whoever called does other things."""
    ours, theirs = socket.socketpair()
    process = multiprocessing.get_context("spawn").Process(
        target=entry, args=(theirs,), name="motet-engine", daemon=True
    )
    process.start()
    theirs.close()
    return Launched(process, ours)


class Supervisor:
    """Owns one engine process at a time. `first` is one that was launched before."""

    def __init__(self, entry: Entry, first: Launched | None = None) -> None:
        self.on_open: Callable[[], None] = lambda: None  # hears of each engine after the first
        self._entry = entry
        self._first = first
        self._process: SpawnProcess | None = None
        self._client: EngineClient | None = None
        self._info: BaseInfo | None = None
        self._generation = 0
        self._watching: asyncio.Task[None] | None = None

    @property
    def info(self) -> BaseInfo:
        """Of the engine that was opened last: it is known from `start` on, whatever happens to the process."""
        assert self._info is not None, "start the supervisor first"
        return self._info

    @property
    def generation(self) -> int:
        """1 for the first engine, one more for each after it."""
        return self._generation

    async def start(self) -> None:
        """Start the engine and wait until it is warm. Raises what kept it from it."""
        await self._open()
        self._watching = asyncio.create_task(self._watch())

    def submit(self, request: Request, on_part: OnPart | None = None) -> asyncio.Future[Any]:
        """Send a request at once: requests reach the engine in the order of `submit`. Cancelling takes it back.

        EngineGone, from the future: it died; EngineAway: there is none.
        """
        client = self._client
        if client is None:
            gone: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            gone.set_exception(EngineAway("the engine is not running; it is being started again"))
            return gone
        call = client.submit(request, on_part)
        call.answer.add_done_callback(lambda answer: client.cancel(call.id) if answer.cancelled() else None)
        return call.answer

    async def call(self, request: Request) -> Any:
        """Submit at once, then wait."""
        return await self.submit(request)

    async def stop(self) -> None:
        """Hang up and let the engine's process end by itself; kill it where it does not."""
        if self._first is not None:  # nobody opened it
            self._first.line.close()
            self._first.process.kill()
            self._first = None
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        if self._client is not None:
            await self._client.close()
            self._client = None
        if self._process is not None:
            await asyncio.to_thread(self._process.join, STOP_SECONDS)
            self._process.kill()
            self._process = None

    async def _open(self) -> None:
        launched = self._first if self._first is not None else await asyncio.to_thread(launch, self._entry)
        self._first, self._process = None, launched.process
        client = await EngineClient.connect(launched.line)
        self._client, self._info = client, client.info
        self._generation += 1

    async def _watch(self) -> None:
        """Start the engine again whenever it has gone."""
        while True:
            assert self._client is not None and self._process is not None
            await self._client.closed.wait()
            self._client = None
            await asyncio.to_thread(self._process.join, STOP_SECONDS)
            self._process.kill()
            log.error("the engine's process ended with code %s; starting it again", self._process.exitcode)
            await self._open_at_last()

    async def _open_at_last(self) -> None:
        pause = FIRST_PAUSE
        while self._client is None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            try:
                await self._open()
            except (MotetError, OSError) as error:  # OSError: no process, no memory for one
                log.error("the engine does not start: %s", error)
            else:
                self.on_open()
