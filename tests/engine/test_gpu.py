"""The same code on a GPU, where there is one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from motet.engine.core.requests import CreateRun, ForwardBackward, OptimStep, Publish, Sample
from motet.engine.types import AdamW, AdapterShape, Datum, Loss, SamplingParams

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_learn_publish_and_sample_on_a_gpu(engine_on: Callable) -> None:
    with engine_on(device="cuda", dtype="bfloat16") as engine:
        engine.submit(CreateRun("run", AdapterShape(rank=8), 1)).result()
        tokens = np.random.default_rng(0).integers(0, 250, 40)
        losses = []
        for _ in range(8):
            trained = engine.submit(ForwardBackward("run", (Datum(tokens[:-1], tokens[1:]),), Loss())).result()
            engine.submit(OptimStep("run", AdamW(learning_rate=0.02))).result()
            losses.append(trained.metrics["loss:sum"])
        assert losses[-1] < 0.8 * losses[0]
        engine.submit(Publish("run", "v")).result()
        result = engine.submit(Sample("v", tokens[:10], SamplingParams(max_tokens=5, seed=1), num_samples=2)).result()
        assert [len(sequence.tokens) for sequence in result.sequences] == [5, 5]
