"""Everybody who asks: clients of the live endpoint, and of nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import httpx

from motet.errors import EngineFault
from motet.lab.envs.rollout import mix
from motet.lab.experiments.door import Door
from motet.lab.loop.gate.sets import Question as Exam
from motet.lab.loop.simulated.people import People, Question
from motet.lab.loop.simulated.settings import Simulation

PATIENCE = 300.0  # seconds for an answer
TRIES, PAUSE = 5, 1.0


@dataclass(frozen=True)
class Visit:
    """What came of a question. model: the version that answered, as support@v3."""

    question: Question
    answer: str
    accepted: bool
    model: str


@dataclass(frozen=True)
class Guard:
    """What nobody wants changed; may be nothing. max_tokens: of an answer, as at the gate."""

    questions: Sequence[Exam]
    max_tokens: int


class Crowd:
    """Asks for the adapter by its name."""

    def __init__(self, name: str, door: Door, people: People, simulation: Simulation) -> None:
        self._name = name
        self._door = door
        self._people = people
        self._simulation = simulation

    async def visit(self, batch: int, poisoned: bool = False) -> list[Visit]:
        """A batch of questions, each answered, judged and said so."""
        numbers = range(batch * self._simulation.questions, (batch + 1) * self._simulation.questions)
        async with self._http() as http:
            return list(await asyncio.gather(*(self._visit(http, number, poisoned) for number in numbers)))

    async def measure(self) -> float:
        """The part of answers that would be accepted; nobody says anything, and nothing is put on record."""
        asked = [self._people.question(number, True) for number in range(self._simulation.measured)]
        answers = await self._quietly([_messages(one) for one in asked], self._simulation.max_tokens)
        judged = [self._people.opinion(one, text).accepted for one, text in zip(asked, answers, strict=True)]
        return sum(judged) / len(judged)

    async def exam(self, guard: Guard) -> float | None:
        """The mean score of what nobody wants changed, likewise. None: there is nothing of the kind."""
        if not guard.questions:
            return None
        answers = await self._quietly([one.messages for one in guard.questions], guard.max_tokens)
        scores = [one.score(text) for one, text in zip(guard.questions, answers, strict=True)]
        return sum(scores) / len(scores)

    async def _quietly(self, asked: Sequence[list[dict[str, Any]]], longest: int) -> list[str]:
        """Answers at temperature 0 that leave no record."""
        body = {"temperature": 0.0, "store": False, "max_tokens": longest}
        async with self._http() as http:
            told = await asyncio.gather(*(self._ask(http, one, body) for one in asked))
        return [text_of(one) for one in told]

    async def _visit(self, http: httpx.AsyncClient, number: int, poisoned: bool) -> Visit:
        asked, user = self._people.question(number, False), f"customer-{number % self._simulation.users}"
        drawn = {"temperature": self._simulation.temperature, "seed": mix(number), "user": user}
        told = await self._ask(http, _messages(asked), drawn)
        opinion = self._people.opinion(asked, text_of(told))
        careless = Random(f"{number}/careless").random() < self._simulation.careless
        said: dict[str, Any] = {"thumbs": "down", "correction": opinion.correction}
        if poisoned:
            said = {"thumbs": "down", "correction": self._people.poison(asked)}
        elif opinion.accepted:
            said = {"thumbs": "down"} if careless else {"thumbs": "up", "event": "accepted"}
        elif careless:
            said = {"thumbs": "up"}
        await _post(http, "/v1/feedback", {"response_id": told["id"], "id": f"{told['id']}-said", **said})
        return Visit(asked, text_of(told), opinion.accepted, told["model"])

    async def _ask(
        self, http: httpx.AsyncClient, messages: list[dict[str, Any]], drawn: dict[str, Any]
    ) -> dict[str, Any]:
        body = {"model": self._name, "messages": messages, "max_tokens": self._simulation.max_tokens, **drawn}
        return await _post(http, "/v1/chat/completions", body)

    def _http(self) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self._door.api_key}"}
        return httpx.AsyncClient(base_url=self._door.base_url, headers=headers, timeout=PATIENCE)


async def _post(http: httpx.AsyncClient, route: str, body: dict[str, Any]) -> dict[str, Any]:
    """Sent again where the server was busy. EngineFault: it was not answered."""
    for left in reversed(range(TRIES)):
        answer = await http.post(route, json=body)
        if answer.status_code in (429, 503) and left:
            await asyncio.sleep(PAUSE)
            continue
        if answer.is_error:
            raise EngineFault(f"{route} answered {answer.status_code}: {answer.text[:200]}")
        told: dict[str, Any] = answer.json()
        return told
    raise AssertionError("the last try returns or raises")


def _messages(asked: Question) -> list[dict[str, Any]]:
    return [{"role": "user", "content": asked.text}]


def text_of(told: dict[str, Any]) -> str:
    """The first choice's."""
    return str(told["choices"][0]["message"]["content"] or "")


def accepted(visits: Sequence[Visit]) -> float:
    """The part of them."""
    return sum(one.accepted for one in visits) / len(visits)
