"""A request that kills every engine is given up alone: those in hand beside it are done."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from motet.errors import EngineAway, EngineGone
from motet.service.http.accepted import Accepted, Kind, Outcome
from motet.service.http.desk import BAD_LUCK, MOST_DEATHS, Desk
from motet.service.http.futures import Promise, Promises, json_reply
from motet.service.http.journal import Journal
from motet.service.http.registry import Session
from motet.service.http.settings import ServiceSettings
from motet.service.http.suspects import Suspects


@dataclass
class Machine:
    """Engines one after the other, each until a poison reaches it."""

    up: bool = True
    deaths: int = 0
    done: list[str] = field(default_factory=list)
    in_hand: list[asyncio.Future[None]] = field(default_factory=list)

    async def work(self, accepted: Accepted) -> Outcome:
        if not self.up:
            raise EngineAway("there is none")
        answer = asyncio.get_running_loop().create_future()
        self.in_hand.append(answer)
        asyncio.get_running_loop().call_later(0.01, self.answer, accepted, answer)
        await answer
        self.done.append(accepted.id)
        return Outcome(json_reply({"fine": accepted.id}))

    def answer(self, accepted: Accepted, answer: asyncio.Future[None]) -> None:
        if answer.done():
            return
        if accepted.message == "poison":
            self.up, self.deaths, dying, self.in_hand = False, self.deaths + 1, self.in_hand, []
            for one in dying:
                if not one.done():
                    one.set_exception(EngineGone("it died"))
        else:
            answer.set_result(None)


class Kept:
    """A journal that keeps everything."""

    async def done(self, accepted: Accepted, outcome: Outcome) -> None:
        await asyncio.sleep(0)


async def through(messages: list[str]) -> tuple[Machine, dict[str, dict[str, Any]]]:
    """All of them in hand at once, engine after engine; their answers."""
    machine, promises = Machine(), Promises(ServiceSettings(), lambda request_id: None)
    desk = Desk(machine, cast(Journal, Kept()), promises, lambda accepted: None)
    suspects = Suspects(desk)
    kind = Kind("x", lambda body: body, lambda worker, accepted: worker.work(accepted))
    owner = cast(Session, SimpleNamespace(tenant="t"))
    made: list[Promise] = []
    for number, message in enumerate(messages):
        promise = promises.make("t", f"{message}-{number}", 1)
        made.append(promise)
        desk.file(Accepted(kind, owner, number, message, promise))
    while desk.open:
        machine.up = True
        waiting = [one for one in desk.open.values() if one.stage == "waiting"]
        for one in waiting:
            if one.deaths < MOST_DEATHS - 1:
                desk.begin(one)
        await suspects.begin(waiting)
        await asyncio.sleep(0.03)
    return machine, {one.id: json.loads(one.reply.body) for one in made if one.reply is not None}


@pytest.mark.parametrize("messages", [["a", "poison", "b", "c"], ["poison", "a", "poison", "b"]])
def test_the_poison_is_given_up_and_nobody_else(messages: list[str]) -> None:
    machine, told = asyncio.run(asyncio.wait_for(through(messages), 20))
    for request, answer in told.items():
        if request.startswith("poison"):
            assert answer["category"] == "server" and "given up" in answer["error"]
        else:
            assert answer == {"fine": request}
    assert len(told) == len(messages) and sorted(machine.done) == sorted(r for r in told if "poison" not in r)
    assert machine.deaths <= MOST_DEATHS + messages.count("poison")


def test_who_comes_while_there_is_no_engine_is_not_blamed() -> None:
    async def test() -> None:
        machine, promises = Machine(up=False), Promises(ServiceSettings(), lambda request_id: None)
        desk = Desk(machine, cast(Journal, Kept()), promises, lambda accepted: None)
        kind = Kind("x", lambda body: body, lambda worker, accepted: worker.work(accepted))
        accepted = Accepted(kind, cast(Session, None), 0, "a", promises.make("t", "a", 1))
        desk.file(accepted)
        for _ in range(BAD_LUCK + 1):
            desk.begin(accepted)
            await asyncio.sleep(0.005)
        assert (accepted.deaths, accepted.stage) == (0, "waiting")

    asyncio.run(test())
