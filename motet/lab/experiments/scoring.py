"""Scorers behind the Tinker API: by a published version, by the base model, by the trainer."""

from __future__ import annotations

from collections.abc import Sequence

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


class TrainerScorer:
    """The log-probabilities that a run's training weights give now."""

    def __init__(self, client: tinker.TrainingClient) -> None:
        self._client = client

    async def logprobs(self, tokens: Sequence[int]) -> list[float]:
        """One a token; 0 for the first, which nothing precedes."""
        output = await self._client.forward([targets_of(tokens)], "cross_entropy")
        return [0.0, *output.loss_fn_outputs[0]["logprobs"].to_numpy().tolist()]
