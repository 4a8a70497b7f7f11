"""A run that has diverged: whoever samples from it is told so, and nobody else notices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from motet.engine.core.requests import CreateRun, ForwardBackward, OptimStep, Publish, Sample
from motet.engine.types import AdamW, AdapterShape, Datum, Loss, SamplingParams
from motet.errors import BadRequest


def test_a_version_of_nan_is_told_and_disturbs_nobody(engine_on: Callable) -> None:
    tokens = np.random.default_rng(0).integers(0, 250, 20)
    params = SamplingParams(max_tokens=12, seed=3, stop_tokens=())
    with engine_on() as engine:
        alone = engine.submit(Sample(None, tokens, params, num_samples=2)).result()
        engine.submit(CreateRun("run", AdapterShape(rank=4), 1)).result()
        engine.submit(ForwardBackward("run", (Datum(tokens[:-1], tokens[1:]),), Loss())).result()
        engine.submit(OptimStep("run", AdamW(learning_rate=1e30))).result()
        engine.submit(Publish("run", "v")).result()
        lost = engine.submit(Sample("v", tokens, params, num_samples=2))
        beside = engine.submit(Sample(None, tokens, params, num_samples=2)).result()
        with pytest.raises(BadRequest, match="diverged"):
            lost.result()
        for got, expected in zip(beside.sequences, alone.sequences, strict=True):
            np.testing.assert_array_equal(got.tokens, expected.tokens)
            np.testing.assert_array_equal(got.logprobs, expected.logprobs)
        assert engine.stats()["kv_blocks_promised"] == 0
