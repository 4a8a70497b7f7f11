"""Versions sit an exam: the same questions, the same seeds, through the Tinker API, which draws what serving draws."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
import tinker

from motet.chat.template import Chat
from motet.lab.algorithms.examples import Completion
from motet.lab.envs.protocol import Cue, Written
from motet.lab.envs.rollout import TinkerPolicy, mix
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.door import Door, create_run
from motet.lab.experiments.scoring import SamplingScorer
from motet.lab.experiments.setting import own_tokenizer
from motet.lab.loop.gate.sets import Question


@dataclass(frozen=True)
class Sat:
    """One answer: its text, how many tokens, and what each of them was worth to the version and to the base model."""

    text: str
    own: float  # mean log-probability of its tokens, by the version that wrote them
    base: float  # the same by the base model
    tokens: int


class Sitting:
    """One version, asked."""

    def __init__(self, client: tinker.SamplingClient, base: SamplingScorer, chat: Chat, temperature: float) -> None:
        self._policy = TinkerPolicy(client, chat.tokenizer, temperature)
        self._scorer = SamplingScorer(client)
        self._base = base
        self._chat = chat

    async def answers(self, questions: Sequence[Question], longest: int, seed: int) -> list[Sat]:
        """All of a set, at once."""
        return list(await asyncio.gather(*(self._ask(one, longest, mix(seed, n)) for n, one in enumerate(questions))))

    async def likes(self, answers: Sequence[Completion]) -> list[float]:
        """What each answer is worth to the version: the mean log-probability of its tokens."""
        return list(await asyncio.gather(*(self._mean(self._scorer, one) for one in answers)))

    async def _ask(self, question: Question, longest: int, seed: int) -> Sat:
        read = self._chat.prompt(question.messages, question.tools)
        (written,) = await self._policy.write(read, Cue([], longest), 1, seed)
        whole = Completion.of(read, written.tokens)
        own, base = await asyncio.gather(self._mean(self._scorer, whole), self._mean(self._base, whole))
        return Sat(self._text(written), own, base, len(written.tokens))

    def _text(self, written: Written) -> str:
        return written.text.removesuffix(self._chat.end).strip()

    async def _mean(self, scorer: SamplingScorer, one: Completion) -> float:
        if not one.written_count:
            return 0.0
        given = np.asarray(await scorer.logprobs(one.tokens))
        return float((given * one.weights).sum() / one.written_count)


@dataclass(frozen=True)
class Room:
    """Where two versions sit, and the tokenizer that they share."""

    before: Sitting
    after: Sitting
    chat: Chat


@asynccontextmanager
async def exam_room(door: Door, before: str, after: str, temperature: float) -> AsyncIterator[Room]:
    """Both versions by their paths, in a session of their own."""
    async with door.session("gate") as service:
        first, second, base = [
            await (await asyncio.to_thread(service.create_sampling_client, path, model))
            for path, model in ((before, None), (after, None), (None, door.model))
        ]
        # Only a run is told which tokenizer the server has; this one learns nothing.
        reader = await create_run(service, door.model, Experiment(name="gate", rank=1))
        chat = Chat(await asyncio.to_thread(own_tokenizer, reader.get_tokenizer))
        scorer = SamplingScorer(base)
        yield Room(Sitting(first, scorer, chat, temperature), Sitting(second, scorer, chat, temperature), chat)
