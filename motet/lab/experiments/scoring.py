"""Scorers behind the Tinker API: a published version, the base model, or a teacher on the same server."""

from __future__ import annotations

from collections.abc import Sequence

import tinker


class TinkerScorer:
    """The log-probabilities that one sampling client's weights give."""

    def __init__(self, client: tinker.SamplingClient) -> None:
        self._client = client

    async def logprobs(self, tokens: Sequence[int]) -> list[float]:
        """One a token; 0 for the first, which nothing precedes."""
        scored = await self._client.compute_logprobs(tinker.ModelInput.from_ints(list(tokens)))
        return [0.0 if one is None else one for one in scored]
