"""Promises: awaited, read twice, bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from motet.engine.core.requests import Request, Stats
from motet.engine.types import BaseInfo
from motet.errors import BadRequest, Busy, EngineFault
from motet.service.http.futures import Promise, Promises, Reply, failure
from motet.service.http.pausing import queue_state
from motet.service.http.reading import EngineReading
from motet.service.http.settings import ServiceSettings

QUICK = ServiceSettings(poll_seconds=0.05)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def forget(request_id: str) -> None:
    """Nobody else needs to know."""


def fulfil_after(promises: Promises, promise: Promise, seconds: float, body: bytes = b"done") -> None:
    asyncio.get_running_loop().call_later(seconds, promises.fulfil, promise, Reply(body))


def test_a_result_is_waited_for_and_read_twice() -> None:
    async def test() -> None:
        promises = Promises(QUICK, forget)
        promise = promises.make("a", "r1", 3)
        fulfil_after(promises, promise, 0.08)
        assert await promises.wait(promise) is None  # longer than one poll
        for _ in range(2):
            found = promises.find("a", "r1")
            assert found is not None
            reply = await promises.wait(found)
            assert reply is not None and reply.body == b"done"
        assert promises.find("b", "r1") is None  # another tenant
        assert promises.find("a", "r2") is None

    run(test())


def test_a_failure_says_whose_it_is() -> None:
    def told(error: BaseException) -> dict[str, str]:
        found: dict[str, str] = json.loads(failure(error).body)
        return found

    assert told(BadRequest("no")) == {"error": "no", "category": "user"}
    assert told(EngineFault("ours"))["category"] == "server"
    assert told(Busy("full"))["category"] == "server"
    assert told(ZeroDivisionError("x")) == {"error": "an internal fault: ZeroDivisionError: x", "category": "server"}
    assert told(asyncio.CancelledError())["category"] == "user"


def test_only_sampling_is_cancelled() -> None:
    async def test() -> None:
        promises, cancelled = Promises(QUICK, forget), []
        sample, train = promises.make("a", "s", 0, cancellable=True), promises.make("a", "t", 0)
        for promise in (sample, train):
            promise.on_cancel = partial(cancelled.append, promise.id)
            promises.cancel(promise)
        assert cancelled == ["s"]
        promises.fulfil(sample, Reply(b"done"))
        promises.cancel(sample)  # too late
        assert cancelled == ["s"]

    run(test())


def test_a_request_that_could_not_be_accepted_leaves_nothing() -> None:
    async def test() -> None:
        promises = Promises(QUICK, forget)
        promises.discard(promises.make("a", "r1", 60))
        assert promises.find("a", "r1") is None
        assert promises.sizes()["requests_pending"] == promises.sizes()["requests_pending_bytes"] == 0

    run(test())


def test_requests_on_their_way_are_bounded() -> None:
    async def test() -> None:
        promises = Promises(ServiceSettings(max_pending=2, max_pending_bytes=100), forget)
        promises.make("a", "r1", 60)
        with pytest.raises(Busy, match="again"):
            promises.make("a", "r2", 60)
        promises.make("a", "r3", 40)
        with pytest.raises(Busy):
            promises.make("a", "r4", 0)

    run(test())


def test_results_that_were_read_go_first_and_unread_ones_stay() -> None:
    async def test() -> None:
        promises = Promises(ServiceSettings(max_result_bytes=250), forget)
        made = [promises.make("a", f"r{i}", 0) for i in range(3)]
        for promise in made[:2]:
            fulfil_after(promises, promise, 0, bytes(100))
            await promises.wait(promise)
        fulfil_after(promises, made[2], 0, bytes(100))
        await made[2].done.wait()
        assert promises.find("a", "r0") is None  # the oldest that was read
        assert promises.find("a", "r1") is not None and promises.find("a", "r2") is not None
        assert promises.sizes()["results_kept_bytes"] == 200

    run(test())


def test_who_leaves_the_most_unread_loses_its_oldest_and_stops_nobody() -> None:
    async def test() -> None:
        gone: list[str] = []
        promises = Promises(ServiceSettings(max_result_bytes=350), gone.append)
        for request_id, tenant in (("r0", "quiet"), ("r1", "careless"), ("r2", "careless"), ("r3", "careless")):
            promises.fulfil(promises.make(tenant, request_id, 0), Reply(bytes(100)))
        assert gone == ["r1"]
        assert promises.find("careless", "r1") is None
        for request_id, tenant in (("r0", "quiet"), ("r2", "careless"), ("r3", "careless")):
            found = promises.find(tenant, request_id)
            assert found is not None and await promises.wait(found) is not None
        assert promises.sizes()["results_kept_bytes"] == 300

    run(test())


def test_what_nobody_comes_for_is_kept_longer_but_not_for_ever() -> None:
    async def test() -> None:
        gone: list[str] = []
        promises = Promises(ServiceSettings(keep_seconds=0.0, unread_seconds=0.05), gone.append)
        promises.fulfil(promises.make("a", "r1", 0), Reply(b"done"))
        promises.make("a", "r2", 0)
        assert gone == []
        await asyncio.sleep(0.06)
        promises.make("a", "r3", 0)
        assert gone == ["r1"]

    run(test())


def test_results_are_kept_for_a_while_only() -> None:
    async def test() -> None:
        gone: list[str] = []
        promises = Promises(ServiceSettings(keep_seconds=0.01), gone.append)
        promise = promises.make("a", "r1", 0)
        fulfil_after(promises, promise, 0)
        await promises.wait(promise)
        await asyncio.sleep(0.02)
        promises.make("a", "r2", 0)
        assert promises.find("a", "r1") is None and gone == ["r1"]

    run(test())


def test_a_stopping_server_answers_waiting_polls() -> None:
    async def test() -> None:
        promises = Promises(ServiceSettings(poll_seconds=30), forget)
        promise = promises.make("a", "r1", 0)
        fulfil_after(promises, promise, 30)
        asyncio.get_running_loop().call_later(0.01, promises.close)
        async with asyncio.timeout(1):
            assert await promises.wait(promise) is None

    run(test())


@dataclass
class Full:
    """An engine with so many samples that wait for room."""

    waiting: int
    generation: int = 1

    @property
    def info(self) -> BaseInfo:
        raise NotImplementedError

    def submit(self, request: Request, on_part: object = None) -> asyncio.Future[Any]:
        raise NotImplementedError

    async def call(self, request: Request) -> Any:
        assert isinstance(request, Stats)
        return {"sample_requests_waiting": float(self.waiting)}


@pytest.mark.parametrize(
    ("waiting", "sample", "state"),
    [
        (0, True, "active"),
        (3, True, "paused_capacity"),
        (3, False, "active"),
    ],
)
def test_samples_that_wait_for_room_say_so(waiting: int, sample: bool, state: str) -> None:
    promise = Promise("r", "t", 1, cancellable=sample)
    told = asyncio.run(queue_state(promise, EngineReading(Full(waiting))))
    assert told.state == state and (told.reason is None) == (state == "active")
