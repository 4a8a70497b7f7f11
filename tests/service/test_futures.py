"""Promises: awaited, read twice, bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest

from motet.errors import BadRequest, Busy, EngineFault
from motet.service.http.futures import Promises, Reply, failure
from motet.service.http.settings import ServiceSettings

QUICK = ServiceSettings(poll_seconds=0.05)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


async def after(seconds: float, body: bytes = b"done") -> Reply:
    await asyncio.sleep(seconds)
    return Reply(body)


async def fail(error: Exception) -> Reply:
    raise error


def test_a_result_is_waited_for_and_read_twice() -> None:
    async def test() -> None:
        promises = Promises(QUICK)
        promise = promises.make("a", "r1", 3)
        promises.start(promise, after(0.08))
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


def test_what_work_raises_becomes_the_failure() -> None:
    async def test() -> None:
        promises = Promises(QUICK)
        for request_id, error in (("r1", BadRequest("wrong")), ("r2", ZeroDivisionError())):
            promise = promises.make("a", request_id, 0)
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
            promises.start(promise, fail(error))
            reply = await promises.wait(promise)
            assert reply is not None and "error" in json.loads(reply.body)

    run(test())


def test_only_sampling_is_cancelled() -> None:
    async def test() -> None:
        promises = Promises(QUICK)
        sample, train = promises.make("a", "s", 0, cancellable=True), promises.make("a", "t", 0)
        for promise in (sample, train):
            promises.start(promise, after(0.02))
            promises.cancel(promise)
        cancelled, done = await promises.wait(sample), await promises.wait(train)
        assert cancelled is not None and b"cancelled" in cancelled.body
        assert done is not None and done.body == b"done"

    run(test())


def test_requests_on_their_way_are_bounded() -> None:
    async def test() -> None:
        promises = Promises(ServiceSettings(max_pending=2, max_pending_bytes=100))
        promises.make("a", "r1", 60)
        with pytest.raises(Busy, match="again"):
            promises.make("a", "r2", 60)
        promises.make("a", "r3", 40)
        with pytest.raises(Busy):
            promises.make("a", "r4", 0)

    run(test())


def test_results_that_were_read_go_first_and_unread_ones_stay() -> None:
    async def test() -> None:
        promises = Promises(ServiceSettings(max_result_bytes=250))
        made = [promises.make("a", f"r{i}", 0) for i in range(3)]
        for promise in made[:2]:
            promises.start(promise, after(0, bytes(100)))
            await promises.wait(promise)
        promises.start(made[2], after(0, bytes(100)))
        await made[2].done.wait()
        assert promises.find("a", "r0") is None  # the oldest that was read
        assert promises.find("a", "r1") is not None and promises.find("a", "r2") is not None
        assert promises.sizes()["results_kept_bytes"] == 200

    run(test())


def test_too_many_unread_results_stop_new_requests() -> None:
    async def test() -> None:
        promises = Promises(ServiceSettings(max_result_bytes=50))
        promise = promises.make("a", "r1", 0)
        promises.start(promise, after(0, bytes(100)))
        await promise.done.wait()
        with pytest.raises(Busy, match="read some"):
            promises.make("a", "r2", 0)
        await promises.wait(promise)
        promises.make("a", "r2", 0)

    run(test())


def test_results_are_kept_for_a_while_only() -> None:
    async def test() -> None:
        promises = Promises(ServiceSettings(keep_seconds=0.01))
        promise = promises.make("a", "r1", 0)
        promises.start(promise, after(0))
        await promises.wait(promise)
        await asyncio.sleep(0.02)
        promises.make("a", "r2", 0)
        assert promises.find("a", "r1") is None

    run(test())


def test_a_stopping_server_answers_waiting_polls() -> None:
    async def test() -> None:
        promises = Promises(ServiceSettings(poll_seconds=30))
        promise = promises.make("a", "r1", 0)
        promises.start(promise, after(30))
        asyncio.get_running_loop().call_later(0.01, promises.close)
        async with asyncio.timeout(1):
            assert await promises.wait(promise) is None

    run(test())
