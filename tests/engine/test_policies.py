"""Policies on a real engine: priorities become shares of device time, and who came first ends first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from motet.bench.policies import Life, crowd_of, shares_of
from motet.engine.core.requests import CreateRun, DropRun, ForwardBackward, OptimStep, Publish, Sample, Stats
from motet.engine.settings import EngineSettings
from motet.engine.types import AdamW, AdapterShape, Claim, Datum, Loss, PolicyName, SamplingParams

SMALL = Life(steps=2, prompts=4, samples=4, prompt_tokens=24, new_tokens=8)


def settings_on(model: Path, policy: PolicyName) -> EngineSettings:
    return EngineSettings(str(model), dtype="float32", policy=policy, kv_cache_bytes=8 * 1024**2)


def test_fair_divides_device_time_by_priority(tiny_model: Path) -> None:
    shares = shares_of(settings_on(tiny_model, "fair"), seconds=1.5)
    assert shares == pytest.approx([0.25, 0.25, 0.5], abs=0.15)


def test_first_come_ends_first_and_the_others_end_too(tiny_model: Path) -> None:
    crowd = crowd_of(settings_on(tiny_model, "first-come"), 4, SMALL)
    assert crowd.ends[0] == min(crowd.ends) and len(crowd.ends) == 4


def test_every_second_of_a_lane_is_on_somebodys_account(engine_on: Callable) -> None:
    tokens = np.arange(60, dtype=np.int32)
    with engine_on() as engine:
        for run, priority in (("a", 1.0), ("b", 2.0)):
            engine.submit(CreateRun(run, AdapterShape(rank=4), 1, Claim(priority, "tenant"))).result()
        before = engine.stats()
        for run in "ab":
            engine.submit(ForwardBackward(run, (Datum(tokens, tokens),), Loss())).result()
            engine.submit(OptimStep(run, AdamW())).result()
            engine.submit(Publish(run, f"{run}/1")).result()
            engine.submit(Sample(f"{run}/1", tokens, SamplingParams(max_tokens=20, seed=1), 2)).result()
        after = engine.submit(Stats()).result()
        for lane in ("training", "sampling"):
            busy = after[f"{lane}_busy_seconds"] - before[f"{lane}_busy_seconds"]
            told = sum(after[f"{lane}_seconds:{run}"] - before[f"{lane}_seconds:{run}"] for run in "ab")
            assert all(after[f"{lane}_seconds:{run}"] > 0 for run in "ab")
            assert told == pytest.approx(busy, rel=0.3, abs=0.02)
        engine.submit(DropRun("a")).result()
        assert "training_seconds:a" not in engine.stats()
