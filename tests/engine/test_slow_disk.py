"""A disk that is slow, full or in the way: it is felt by the request that needs it, and by nobody else.

The slow disk is a FIFO in the place of the file that the engine begins to write: whoever opens it waits for a reader.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pytest

from motet.engine.core.engine import Engine
from motet.engine.core.requests import (
    CreateRun,
    ForwardBackward,
    LoadVersion,
    OptimStep,
    Publish,
    RestoreRun,
    Sample,
    SaveRun,
    SaveVersion,
    Stats,
)
from motet.engine.types import AdamW, AdapterShape, Datum, FreshAdapter, JournaledStep, Loss, SamplingParams
from motet.errors import EngineFault

SHAPE = AdapterShape(rank=8)
ADAM = AdamW(learning_rate=0.02)
TOKENS = np.arange(30)
DATA = (Datum(TOKENS[:-1], TOKENS[1:]),)


def begin(engine: Engine, run: str) -> None:
    engine.submit(CreateRun(run, SHAPE, 1)).result()
    engine.submit(ForwardBackward(run, DATA, Loss())).result()


@contextmanager
def slow(file: Path) -> Iterator[None]:
    """Whoever writes this file waits until the end, and finds that it cannot be synced."""
    fifo = file.with_name(file.name + "~partial")
    os.mkfifo(fifo)
    try:
        yield
    finally:
        with fifo.open("rb") as reader:
            assert reader.read()


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process may grow beyond a kilobyte."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_nobody_waits_for_a_slow_disk_but_the_run_that_writes(engine_on: Callable, tmp_path: Path) -> None:
    file = tmp_path / "gradient"
    with engine_on() as engine:
        for run in ("writes", "other"):
            begin(engine, run)
        engine.submit(Publish("other", "v")).result()
        engine.submit(SaveVersion("v", str(tmp_path / "v"))).result()
        with slow(file):
            step = engine.submit(OptimStep("writes", ADAM, str(file)))
            published = engine.submit(Publish("writes", "after"))
            assert engine.submit(OptimStep("other", ADAM)).result().step == 1
            engine.submit(ForwardBackward("other", DATA, Loss())).result()  # steps come first: the other one is away
            saved = engine.submit(SaveVersion("v", str(tmp_path / "v again")))
            engine.submit(Sample("v", TOKENS, SamplingParams(max_tokens=4))).result()
            engine.submit(LoadVersion("w", str(tmp_path / "v"))).result()
            engine.submit(RestoreRun("new", FreshAdapter(SHAPE, 1))).result()
            assert engine.submit(Stats()).result()["files_to_write"] == 1
            assert not (step.done() or published.done() or saved.done())
        with pytest.raises(EngineFault, match="cannot be written"):
            step.result()
        assert published.result().content_hash == engine.submit(Publish("new", "fresh")).result().content_hash
        saved.result()


@pytest.mark.parametrize("trouble", ["full", "in the way"])
def test_a_disk_that_takes_nothing_fails_that_request_alone(engine_on: Callable, tmp_path: Path, trouble: str) -> None:
    file, place = tmp_path / "gradient", tmp_path / "place"
    with engine_on() as engine:
        for run in ("run", "twin"):
            begin(engine, run)
        engine.submit(Publish("run", "v")).result()
        refused = [OptimStep("run", ADAM, str(file)), SaveRun("run", str(place)), SaveVersion("v", str(place))]
        if trouble == "in the way":
            (tmp_path / "in the way").write_text("a file where a folder should be")
            elsewhere = str(tmp_path / "in the way" / "x")
            refused = [OptimStep("run", ADAM, elsewhere), SaveRun("run", elsewhere), SaveVersion("v", elsewhere)]
        for request in refused:
            with full_disk() if trouble == "full" else nullcontext(), pytest.raises(EngineFault, match="make room"):
                engine.submit(request).result()
        assert sorted(path.name for path in tmp_path.glob("*") if path.name in ("gradient", "place")) == []
        assert not list(tmp_path.glob("*~partial"))
        assert engine.submit(OptimStep("run", ADAM, str(file))).result().step == 1
        engine.submit(OptimStep("twin", ADAM)).result()
        mine, twins = (engine.submit(Publish(run, run)).result() for run in ("run", "twin"))
        assert mine.content_hash == twins.content_hash  # the step that failed had left everything as it was
        restored = engine.submit(RestoreRun("again", FreshAdapter(SHAPE, 1), (JournaledStep(str(file), ADAM),)))
        assert restored.result().step == 1
