"""Files that are lost or belong to another base model: the request fails alone, the engine goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from motet.engine.core.engine import Engine
from motet.engine.core.requests import CreateRun, ForwardBackward, LoadRun, OptimStep, Publish, Sample, SaveRun
from motet.engine.types import AdamW, AdapterShape, Datum, Loss, SamplingParams
from motet.errors import BadRequest, EngineFault
from tests.tiny import make_tiny_model

PROMPT = np.arange(20)


def sample(engine: Engine, version: str | None) -> list[int]:
    result = engine.submit(Sample(version, PROMPT, SamplingParams(max_tokens=4, seed=1))).result()
    return result.sequences[0].tokens.tolist()


def test_a_lost_version_fails_its_own_requests(engine_on: Callable, tmp_path: Path) -> None:
    with engine_on(host_bytes=500_000, data_dir=tmp_path / "data") as engine:
        base = sample(engine, None)
        engine.submit(CreateRun("run", AdapterShape(rank=16), 1)).result()
        engine.submit(Publish("run", "lost")).result()
        for seed in range(4):
            engine.submit(CreateRun(f"other-{seed}", AdapterShape(rank=16), seed)).result()
        deadline = time.monotonic() + 10
        while not (files := list((tmp_path / "data" / "spill").rglob("version-*"))):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.1)  # it has left memory, too
        files[0].unlink()
        for _ in range(2):
            with pytest.raises(EngineFault, match="failed"):
                sample(engine, "lost")
        assert sample(engine, None) == base
        assert not engine.stopped


def test_a_run_of_another_base_model_is_refused(engine_on: Callable, tmp_path: Path) -> None:
    other = make_tiny_model(tmp_path, "qwen3", hidden_size=48)
    with engine_on(model=str(other)) as engine:
        engine.submit(CreateRun("run", AdapterShape(rank=4), 1)).result()
        engine.submit(SaveRun("run", str(tmp_path / "saved"))).result()
    with engine_on() as engine:
        with pytest.raises(BadRequest, match="another base model"):
            engine.submit(LoadRun("run", str(tmp_path / "saved"), optimizer=True)).result()
        assert sample(engine, None) == sample(engine, None)


def test_a_run_that_is_lost_between_two_passes(engine_on: Callable) -> None:
    """Its request fails alone, and so does what it asks next; who shares the pass goes on as if alone."""
    data = tuple(Datum(np.full(30, n), np.full(30, n)) for n in range(200))
    with engine_on(pass_rows=64) as engine:
        for run in ("lost", "other", "alone"):
            engine.submit(CreateRun(run, AdapterShape(rank=4), 1)).result()
        expected = engine.submit(ForwardBackward("alone", data, Loss())).result()
        lost, other = (engine.submit(ForwardBackward(run, data, Loss())) for run in ("lost", "other"))
        queue = engine._queues._runs["lost"]
        while not queue[0].results:
            time.sleep(0.001)
        residency = engine._backend.training._store.residency  # type: ignore[attr-defined]
        residency._entries[engine._backend.training._store.run("lost").key].fault = EngineFault("lost")  # type: ignore[attr-defined]
        with pytest.raises(EngineFault, match="lost"):
            lost.result()
        assert other.result().metrics["loss:sum"] == expected.metrics["loss:sum"]
        with pytest.raises(EngineFault, match="lost"):
            engine.submit(OptimStep("lost", AdamW())).result()
        steps = [engine.submit(OptimStep(run, AdamW())).result().metrics for run in ("other", "alone")]
        assert steps[0] == steps[1]
