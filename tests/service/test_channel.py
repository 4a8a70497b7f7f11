"""The door between the two processes: its two ends over a real socket, with an engine small enough to see through."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from motet.engine.core.channel import EngineClient, Opened, Part, encode_frame, refusal, serve_engine
from motet.engine.core.requests import DropRun, DropVersion, Request, Sample, Stats
from motet.engine.types import BaseInfo, SamplePart, SamplingParams
from motet.errors import BadConfig, BadRequest, Busy, Cancelled, EngineFault, EngineGone, NotFound

INFO = BaseInfo("tiny", "/tiny", 320, 128, "float32", 1, (2,), 8, "hash", "print")


class SmallEngine:
    """Gives back what it is sent: Sample waits to be cancelled, DropRun fails by name, Stats counts."""

    def __init__(self) -> None:
        self.info = INFO
        self.stopped = False
        self.closed = False
        self.seen: list[Request] = []

    def submit(self, request: Request, on_part: object = None) -> Future[Any]:
        self.seen.append(request)
        future: Future[Any] = Future()
        if isinstance(request, DropRun):
            kinds = {kind.__name__: kind for kind in (BadRequest, NotFound, BadConfig, Busy, EngineFault, KeyError)}
            future.set_exception(kinds[request.run]("because"))
        elif isinstance(request, DropVersion):
            self.stopped = True
            future.set_exception(EngineFault("a lane died"))
        elif isinstance(request, Stats):
            future.set_result({"seen": len(self.seen), "array": np.arange(5)})
        return future

    def cancel(self, future: Future[Any]) -> None:
        future.cancel()

    def close(self) -> None:
        self.closed = True


@asynccontextmanager
async def connected(engine: SmallEngine) -> AsyncIterator[EngineClient]:
    ours, theirs = socket.socketpair()
    served = threading.Thread(target=serve_engine, args=(engine, theirs))
    served.start()
    client = await EngineClient.connect(ours)
    try:
        yield client
    finally:
        await client.close()
        await asyncio.to_thread(served.join, 5)
        assert engine.closed


def with_engine(test: Callable[[SmallEngine, EngineClient], Any]) -> None:
    async def run() -> None:
        engine = SmallEngine()
        async with connected(engine) as client:
            await test(engine, client)

    asyncio.run(run())


SAMPLE = Sample(None, np.arange(3, dtype=np.int32), SamplingParams())


def test_info_calls_and_their_order() -> None:
    async def test(engine: SmallEngine, client: EngineClient) -> None:
        assert client.info == INFO
        answers = await asyncio.gather(*(client.call(Stats()) for _ in range(50)))
        assert [answer["seen"] for answer in answers] == list(range(1, 51))
        assert (answers[0]["array"] == np.arange(5)).all()

    with_engine(test)


@pytest.mark.parametrize("kind", [BadRequest, NotFound, BadConfig, Busy, EngineFault])
def test_errors_arrive_as_what_they_were(kind: type[Exception]) -> None:
    async def test(engine: SmallEngine, client: EngineClient) -> None:
        with pytest.raises(kind, match="^because$"):
            await client.call(DropRun(kind.__name__))

    with_engine(test)


def test_an_error_that_nobody_foresaw_is_a_fault() -> None:
    async def test(engine: SmallEngine, client: EngineClient) -> None:
        with pytest.raises(EngineFault, match="KeyError"):
            await client.call(DropRun("KeyError"))
        assert (await client.call(Stats()))["seen"] == 2

    with_engine(test)


def test_a_call_is_taken_back() -> None:
    async def test(engine: SmallEngine, client: EngineClient) -> None:
        call = client.submit(SAMPLE)
        client.cancel(call.id)
        with pytest.raises(Cancelled):
            await call.answer
        waiting = asyncio.create_task(client.call(SAMPLE))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await client.call(Stats()))["seen"] == 3  # the late answer to a caller who has gone does no harm

    with_engine(test)


def test_an_engine_that_stops_hangs_up() -> None:
    async def test(engine: SmallEngine, client: EngineClient) -> None:
        waiting = client.submit(SAMPLE)
        with pytest.raises(EngineFault, match="a lane died"):
            await client.call(DropVersion("x"))
        await asyncio.wait_for(client.closed.wait(), 5)
        with pytest.raises(EngineFault, match="ended"):
            await waiting.answer
        with pytest.raises(EngineFault, match="not running"):
            await client.call(Stats())

    with_engine(test)


def test_a_token_after_its_answer_does_no_harm() -> None:
    """One lane fails, and with it every request; the other is in the middle of a step, and tells its tokens."""

    async def test() -> None:
        ours, theirs = socket.socketpair()
        theirs.sendall(encode_frame(Opened(INFO)))
        client = await EngineClient.connect(ours)
        told: list[SamplePart] = []
        first, second = client.submit(SAMPLE, told.append), client.submit(SAMPLE, told.append)
        theirs.sendall(encode_frame(refusal(first.id, EngineGone("a lane died"))))
        for call in (first, second):
            theirs.sendall(encode_frame(Part(call.id, SamplePart(0, 7, -1.0))))
        with pytest.raises(EngineGone, match="a lane died"):
            await first.answer
        theirs.close()
        await asyncio.wait_for(client.closed.wait(), 5)
        with pytest.raises(EngineGone, match="ended"):
            await second.answer
        assert [part.token for part in told] == [7]

    asyncio.run(test())


def test_what_kept_the_engine_from_opening_arrives() -> None:
    async def test() -> None:
        ours, theirs = socket.socketpair()
        theirs.sendall(encode_frame(refusal(0, NotFound("no such folder"))))
        with pytest.raises(NotFound, match="no such folder"):
            await EngineClient.connect(ours)
        ours, theirs = socket.socketpair()
        theirs.close()
        with pytest.raises(EngineFault, match="before it was ready"):
            await EngineClient.connect(ours)

    asyncio.run(test())
