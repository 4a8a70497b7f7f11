"""Who plays the customer: a script, a model of the same server, or any endpoint that speaks OpenAI's chat API."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import httpx

from motet.chat.template import Chat, Message
from motet.errors import MotetError
from motet.lab.envs.protocol import Cue
from motet.lab.envs.rollout import Policy, mix

STOP = "###STOP###"  # the customer is content
OVER = (STOP, "###TRANSFER###", "###OUT-OF-SCOPE###")
TRIES, PAUSE, TIMEOUT = 4, 1.0, 60.0
GREETING = "Hi! How can I help you today?"
RULES = f"""You are a customer who talks to a shop's service agent. Play this part:

{{scenario}}

Write only what the customer says next, one short message at a time. Tell only what is asked for. Make nothing up that
is not written above. Once your request is dealt with, or cannot be, write {STOP} alone."""


class UserFailed(MotetError):
    """Whoever plays the customer could not be reached."""


class Customer(Protocol):
    """Says what comes next. `talk`: what was said so far, the agent as user, itself as assistant."""

    async def say(self, talk: Sequence[Message]) -> str: ...


@dataclass
class ScriptedCustomer:
    """Says its lines, then goes: for tests."""

    lines: list[str]
    said: int = 0

    async def say(self, talk: Sequence[Message]) -> str:
        self.said += 1
        return self.lines[self.said - 1] if self.said <= len(self.lines) else STOP


@dataclass
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
        cue = Cue(prompt, self.most_tokens)
        (written,) = await self.policy.write(prompt, cue, 1, mix(self.seed, len(talk)))
        return written.text.removesuffix(self.chat.end).strip()


@dataclass
class EndpointCustomer:
    """A model behind OpenAI's chat API."""

    url: str  # up to and with /v1
    model: str
    key: str
    scenario: str
    seed: int
    transport: httpx.AsyncBaseTransport | None = None
    pause: float = PAUSE
    temperature: float = field(default=1.0)

    async def say(self, talk: Sequence[Message]) -> str:
        """UserFailed: nobody answered, several times over."""
        rules = {"role": "system", "content": RULES.format(scenario=self.scenario)}
        body = {"model": self.model, "messages": [rules, *talk], "temperature": self.temperature, "seed": self.seed}
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        async with httpx.AsyncClient(timeout=TIMEOUT, transport=self.transport) as client:
            for attempt in range(TRIES):
                try:
                    answer = await client.post(f"{self.url.rstrip('/')}/chat/completions", json=body, headers=headers)
                    answer.raise_for_status()
                    return str(answer.json()["choices"][0]["message"]["content"] or "")
                except (httpx.HTTPError, KeyError, IndexError, ValueError) as error:
                    told = f"{type(error).__name__}: {error}"
                    await asyncio.sleep(self.pause * 2**attempt)
        raise UserFailed(f"{self.url} did not answer for the customer: {told}")
