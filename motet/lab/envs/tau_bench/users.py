"""Who plays the customer: a script, a model of the same server, or any endpoint that speaks OpenAI's chat API.

What a customer says follows from the talk so far alone; nobody here remembers anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import httpx

from motet.chat.template import Chat, Message
from motet.chat.thoughts import spoken
from motet.errors import MotetError
from motet.lab.envs.protocol import Cue
from motet.lab.envs.rollout import Policy, mix

STOP, TRANSFER, OUT_OF_SCOPE = "###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###"  # as they were published
OVER = (STOP, TRANSFER, OUT_OF_SCOPE)
TRIES, PAUSE, TIMEOUT = 4, 1.0, 60.0
PASSING = (408, 409, 425, 429)  # statuses below 500 that may be gone the next time
GREETING = "Hi! How can I help you today?"
RULES = f"""You are a customer who talks to a shop's service agent. Play this part:

{{scenario}}

Write only what the customer says next, in your own words, one short message at a time. Tell only what is asked for, and
make nothing up that is not written above. An agent who will do something has not done it yet: go on until everything
above is dealt with, or has been refused. Then write {STOP} and nothing else. Where you are handed to somebody else,
write {TRANSFER}; where the part above does not say enough to go on, write {OUT_OF_SCOPE}."""


class UserFailed(MotetError):
    """Whoever plays the customer could not be reached."""


class Customer(Protocol):
    """Says what comes next. `talk`: what was said so far, the agent as user, itself as assistant."""

    async def say(self, talk: Sequence[Message]) -> str: ...


@dataclass(frozen=True)
class ScriptedCustomer:
    """Says its lines, then goes: for tests."""

    lines: Sequence[str]

    async def say(self, talk: Sequence[Message]) -> str:
        said = sum(one["role"] == "assistant" for one in talk)
        return self.lines[said] if said < len(self.lines) else STOP


@dataclass
class Consistent:
    """Says the same first thing in every episode of its problem: those of a group begin alike, whoever plays it."""

    customer: Customer
    first: str | None = None

    async def say(self, talk: Sequence[Message]) -> str:
        if len(talk) > 1:
            return await self.customer.say(talk)
        if self.first is None:
            said = await self.customer.say(talk)
            self.first = said if self.first is None else self.first  # somebody else may have asked meanwhile
        return self.first


@dataclass(frozen=True)
class ModelCustomer:
    """A version of an adapter, or the base model, on the server where the experiment runs."""

    policy: Policy
    chat: Chat
    scenario: str
    seed: int
    most_tokens: int = 128

    async def say(self, talk: Sequence[Message]) -> str:
        rules = {"role": "system", "content": RULES.format(scenario=self.scenario)}
        prompt = self.chat.prompt([rules, *talk])
        (written,) = await self.policy.write(prompt, Cue(prompt, self.most_tokens), 1, mix(self.seed, len(talk)))
        return spoken(written.text.removesuffix(self.chat.end)).strip()


@dataclass(frozen=True)
class EndpointModel:
    """A model behind OpenAI's chat API. url: up to and with /v1."""

    url: str
    name: str
    key: str = ""
    temperature: float = 0.0
    transport: httpx.AsyncBaseTransport | None = None
    pause: float = PAUSE  # seconds before the second try; then twice as long each

    async def answer(self, messages: Sequence[Message], seed: int) -> str:
        """UserFailed: nobody answered, several times over, or the endpoint refuses."""
        async with httpx.AsyncClient(timeout=TIMEOUT, transport=self.transport) as client:
            for attempt in range(TRIES):
                if attempt:
                    await asyncio.sleep(self.pause * 2 ** (attempt - 1))
                try:
                    return await self._ask(client, messages, seed)
                except (httpx.HTTPError, LookupError, TypeError, ValueError) as error:
                    told = f"{type(error).__name__}: {error}"
        raise UserFailed(f"{self.url} did not answer for the customer: {told}")

    async def _ask(self, client: httpx.AsyncClient, messages: Sequence[Message], seed: int) -> str:
        body = {"model": self.name, "messages": list(messages), "temperature": self.temperature, "seed": seed}
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        answer = await client.post(f"{self.url.rstrip('/')}/chat/completions", json=body, headers=headers)
        if 400 <= answer.status_code < 500 and answer.status_code not in PASSING:
            refusal = f"{self.url} refuses to play the customer ({answer.status_code}: {answer.text[:200]})"
            raise UserFailed(f"{refusal}: look at what begins with customer in [environment], and at the key")
        answer.raise_for_status()
        return str(answer.json()["choices"][0]["message"]["content"] or "")


@dataclass(frozen=True)
class EndpointCustomer:
    """Played by such a model."""

    model: EndpointModel
    scenario: str
    seed: int

    async def say(self, talk: Sequence[Message]) -> str:
        rules = {"role": "system", "content": RULES.format(scenario=self.scenario)}
        return spoken(await self.model.answer([rules, *talk], self.seed)).strip()
