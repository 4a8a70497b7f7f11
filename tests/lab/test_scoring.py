"""Who is asked for log-probabilities, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
import tinker

from motet.lab.experiments.scoring import TrainerScorer


class Trainer:
    """Gives each target a tenth of its number, and fails on the token 13."""

    def __init__(self) -> None:
        self.requests: list[list[list[int]]] = []

    async def forward(self, data: Sequence[tinker.Datum], loss: str) -> tinker.ForwardBackwardOutput:
        targets = [datum.loss_fn_inputs["target_tokens"].to_numpy() for datum in data]
        self.requests.append([one.tolist() for one in targets])
        if any(13 in one for one in targets):
            raise ValueError("unlucky")
        outputs = [{"logprobs": tinker.TensorData.from_numpy((one / 10).astype(np.float32))} for one in targets]
        return tinker.ForwardBackwardOutput(loss_fn_output_type="", loss_fn_outputs=outputs, metrics={})


async def asked_at_once(scorer: TrainerScorer, *texts: list[int]) -> list[Any]:
    return await asyncio.gather(*(scorer.logprobs(text) for text in texts), return_exceptions=True)


def test_what_is_asked_in_one_breath_is_one_request_and_everybody_gets_their_own() -> None:
    async def scenario() -> None:
        trainer = Trainer()
        scorer = TrainerScorer(cast(tinker.TrainingClient, trainer))
        told = await asked_at_once(scorer, [1, 2, 3], [4, 5], [6, 7])
        assert told == [pytest.approx([0, 0.2, 0.3]), pytest.approx([0, 0.5]), pytest.approx([0, 0.7])]
        assert await scorer.logprobs([8, 9]) == pytest.approx([0, 0.9])
        assert trainer.requests == [[[2, 3], [5], [7]], [[9]]]

    asyncio.run(scenario())


def test_a_request_that_fails_is_told_to_all_who_were_in_it_and_to_nobody_after() -> None:
    async def scenario() -> None:
        scorer = TrainerScorer(cast(tinker.TrainingClient, Trainer()))
        assert [str(one) for one in await asked_at_once(scorer, [1, 13], [4, 5])] == ["unlucky"] * 2
        assert await scorer.logprobs([8, 9]) == pytest.approx([0, 0.9])

    asyncio.run(scenario())


def test_who_goes_away_takes_nobody_along() -> None:
    async def scenario() -> None:
        scorer = TrainerScorer(cast(tinker.TrainingClient, Trainer()))
        leaving, staying = (asyncio.ensure_future(scorer.logprobs([4, token])) for token in (5, 6))
        await asyncio.sleep(0)
        leaving.cancel()
        assert await staying == pytest.approx([0, 0.6])

    asyncio.run(scenario())
