"""Scorers behind the Tinker API: by a published version, by the base model, by the trainer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import tinker

from motet.lab.algorithms.base import Scorer
from motet.lab.algorithms.datums import targets_of


class SamplingScorer:
    """The log-probabilities that one sampling client's weights give."""

    def __init__(self, client: tinker.SamplingClient) -> None:
        self._client = client

    async def logprobs(self, tokens: Sequence[int]) -> list[float]:
        """One a token; 0 for the first, which nothing precedes."""
        scored = await self._client.compute_logprobs(tinker.ModelInput.from_ints(list(tokens)))
        return [0.0 if one is None else one for one in scored]


class PromptedScorer:
    """A scorer that reads something of its own first: after the token that begins every text, where there is one."""

    def __init__(self, scorer: Scorer, prefix: Sequence[int], begin: int | None) -> None:
        self._scorer = scorer
        self._prefix = prefix
        self._begin = begin

    async def logprobs(self, tokens: Sequence[int]) -> list[float]:
        """One a token; 0 for the first, which nothing of the text itself precedes."""
        at = 1 if tokens[0] == self._begin else 0
        scored = await self._scorer.logprobs([*tokens[:at], *self._prefix, *tokens[at:]])
        return [0.0, *[*scored[:at], *scored[at + len(self._prefix) :]][1:]]


@dataclass
class Forward:
    """One request on its way: what is asked for, until it is sent; then the answer."""

    asked: list[Sequence[int]]
    answer: asyncio.Task[tinker.ForwardBackwardOutput]


class TrainerScorer:
    """The log-probabilities that a run's training weights give now. What is asked for in one breath is one request, in
    which shared prompts are computed once."""

    def __init__(self, client: tinker.TrainingClient) -> None:
        self._client = client
        self._next: Forward | None = None

    async def logprobs(self, tokens: Sequence[int]) -> list[float]:
        """One a token; 0 for the first, which nothing precedes."""
        if self._next is None:
            asked: list[Sequence[int]] = []
            self._next = Forward(asked, asyncio.ensure_future(self._send(asked)))
        request, place = self._next, len(self._next.asked)
        request.asked.append(tokens)
        output = await asyncio.shield(request.answer)
        return [0.0, *output.loss_fn_outputs[place]["logprobs"].to_numpy().tolist()]

    async def _send(self, asked: Sequence[Sequence[int]]) -> tinker.ForwardBackwardOutput:
        await asyncio.sleep(0)  # everybody who is about to ask
        self._next = None
        return await self._client.forward([targets_of(tokens) for tokens in asked], "cross_entropy")
