"""Requests that are wrong in ways that nobody foresaw, or whose numbers do not fit: each fails alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from motet.engine.core.engine import Engine
from motet.engine.core.requests import (
    CreateRun,
    ForwardBackward,
    LoadRun,
    LoadVersion,
    OptimStep,
    Publish,
    Request,
    Sample,
    SaveRun,
    SaveVersion,
    Stats,
)
from motet.engine.opening import open_engine
from motet.engine.settings import EngineSettings
from motet.engine.types import AdamW, AdapterShape, Datum, Loss, PromptQuery, SamplingParams
from motet.errors import BadRequest, EngineFault, EngineGone, MotetError, NotFinite

TOKENS = np.arange(20)
SHAPE = AdapterShape(rank=4)
DATA = (Datum(TOKENS[:-1], TOKENS[1:]),)
LONG = "a" * 300


def sample(**params: object) -> Sample:
    return Sample(None, TOKENS, SamplingParams(**{"max_tokens": 4, "seed": 1, **params}))  # type: ignore[arg-type]


def asking(query: PromptQuery) -> Sample:
    return Sample(None, TOKENS, SamplingParams(max_tokens=4), query=query)


@pytest.fixture(scope="module")
def engine(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One for all that goes wrong here: whatever was tried before, the next one finds it well."""
    folder = tmp_path_factory.mktemp("data")
    engine = open_engine(EngineSettings(str(tiny_model), folder, dtype="float32", kv_cache_bytes=8 * 1024**2))
    engine.submit(CreateRun("run", SHAPE, 1)).result()
    engine.submit(Publish("run", "version")).result()
    yield engine
    engine.close()


WRONG: dict[str, Request] = {
    "a large seed": CreateRun("new", SHAPE, 2**64),
    "a small seed": CreateRun("new", SHAPE, -(2**63) - 1),
    "a large alpha": CreateRun("new", AdapterShape(rank=4, alpha=1e39), 1),
    "a small alpha": CreateRun("new", AdapterShape(rank=4, alpha=1e-60), 1),
    "a large learning rate": OptimStep("run", AdamW(learning_rate=1e308)),
    "a small eps": OptimStep("run", AdamW(eps=1e-60)),
    "a large setting": ForwardBackward("run", DATA, Loss("dro", {"beta": 1e308})),
    "a large weight": ForwardBackward("run", (Datum(TOKENS, TOKENS, weights=np.full(20, 1e39)),), Loss()),
    "tokens that are no integers": ForwardBackward("run", (Datum(np.ones(20), TOKENS),), Loss()),
    "a prompt of no integers": Sample(None, np.ones(20), SamplingParams(max_tokens=4)),  # type: ignore[arg-type]
    "a large temperature": sample(temperature=1e300),
    "a small top_p": sample(top_p=1e-300),
    "many stop strings": sample(stop_strings=("a",) * 65),
    "a long stop string": sample(stop_strings=("a" * 1025,)),
    "many stop tokens": sample(stop_tokens=(1,) * 4097),
    "many likeliest tokens": asking(PromptQuery(top=2**62)),
    "many drawn tokens": asking(PromptQuery(draws=2**40)),
    "likeliest tokens below 0": Sample(None, TOKENS, SamplingParams(max_tokens=4), top_sample_logprobs=-1),
}
UNFORESEEN: dict[str, Request] = {
    "a rank of another kind": CreateRun("new", AdapterShape(rank=4.5), 1),  # type: ignore[arg-type]
    "an alpha of another kind": CreateRun("new", AdapterShape(rank=4, alpha="x"), 1),  # type: ignore[arg-type]
    "settings of another kind": OptimStep("run", AdamW(learning_rate="x")),  # type: ignore[arg-type]
    "journaled settings of another kind": OptimStep("run", AdamW(learning_rate="x"), "file"),  # type: ignore[arg-type]
    "no tokens at all": ForwardBackward("run", (Datum(None, TOKENS),), Loss()),  # type: ignore[arg-type]
    "a prompt of another kind": Sample(None, [1, 2], SamplingParams()),  # type: ignore[arg-type]
    "a bound of another kind": sample(max_tokens="x"),
    "a stop string of another kind": sample(stop_strings=(3,)),
    "a run's folder that cannot be": SaveRun("run", "/tmp/a\0b"),
    "a version's folder that cannot be": SaveVersion("version", "/tmp/\ud800"),
    "a journal that cannot be": OptimStep("run", AdamW(), "/tmp/a\0b"),
}
NO_SUCH_PLACE: dict[str, Request] = {
    "a run's folder": SaveRun("run", f"/tmp/{LONG}"),
    "a version's folder": SaveVersion("version", f"/tmp/{LONG}"),
    "a journal": OptimStep("run", AdamW(), f"/tmp/{LONG}"),
    "a run to load": LoadRun("new", f"/tmp/{LONG}", optimizer=True),
    "a version to load": LoadVersion("new", f"/tmp/{LONG}"),
}


def refused(engine: Engine, request: Request) -> MotetError:
    """How it is refused; the run that it named goes on, and so do others."""
    error = engine.submit(request).exception()
    assert isinstance(error, MotetError), error
    assert not engine.stopped
    assert engine.submit(sample()).result().sequences[0].stop_reason
    assert engine.submit(ForwardBackward("run", DATA, Loss(), backward=False)).result().metrics["loss:sum"] > 0
    return error


@pytest.mark.parametrize("request_", WRONG.values(), ids=WRONG.keys())
def test_numbers_that_do_not_fit(engine: Engine, request_: Request) -> None:
    assert isinstance(refused(engine, request_), BadRequest)


@pytest.mark.parametrize("request_", UNFORESEEN.values(), ids=UNFORESEEN.keys())
def test_what_nobody_foresaw_is_logged(engine: Engine, request_: Request, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        error = refused(engine, request_)
    assert type(error) is EngineFault and "internal fault" in str(error)
    assert any(record.exc_info for record in caplog.records), "with its trace"


@pytest.mark.parametrize("request_", NO_SUCH_PLACE.values(), ids=NO_SUCH_PLACE.keys())
def test_a_name_that_no_disk_takes(engine: Engine, request_: Request) -> None:
    refused(engine, request_)


def test_a_top_k_beyond_the_vocabulary_is_none_at_all(engine: Engine) -> None:
    plain, large = (engine.submit(sample(top_k=k)).result().sequences[0] for k in (-1, 2**63))
    np.testing.assert_array_equal(plain.tokens, large.tokens)


HUGE = (Datum(TOKENS, TOKENS, logprobs=np.full(20, -1.0), advantages=np.full(20, 3e38)),)


@pytest.mark.parametrize("journal", [False, True])
@pytest.mark.parametrize(
    ("data", "loss", "adam"),
    [
        (HUGE, Loss("ppo"), AdamW()),  # the gradient is finite, its square is not
        (DATA, Loss(), AdamW(learning_rate=1e30, weight_decay=1e30)),
        (DATA, Loss(), AdamW(learning_rate=3e38, beta1=0.9, beta2=0.0)),
    ],
    ids=["moments", "decay", "weights"],
)
def test_a_step_beyond_float32_is_not_taken(
    engine: Engine, tmp_path: Path, data: tuple[Datum, ...], loss: Loss, adam: AdamW, journal: bool
) -> None:
    """The run is as it was, its gradient is cleared: the next step is its twin's, who never tried."""
    names, file = [f"{tmp_path}/{who}" for who in ("run", "twin")], str(tmp_path / "gradient")
    for name in names:
        engine.submit(CreateRun(name, SHAPE, 1)).result()
    for last in (False, True):
        for name in names:
            engine.submit(ForwardBackward(name, DATA, Loss())).result()
            engine.submit(OptimStep(name, AdamW(learning_rate=0.01))).result()
        if not last:
            engine.submit(ForwardBackward(names[0], data, loss)).result()
            with pytest.raises(NotFinite, match="was not taken"):
                engine.submit(OptimStep(names[0], adam, file if journal else None)).result()
            assert not Path(file).exists()
    mine, twins = (engine.submit(Publish(name, name)).result() for name in names)
    assert mine.content_hash == twins.content_hash


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_in_a_step_ends_the_engine(engine_on: Callable) -> None:
    """Nobody could say what it left of the others: all of them hear of it."""
    with engine_on() as engine:
        other = engine.submit(sample(max_tokens=400, stop_tokens=()))
        with pytest.raises(EngineGone, match="fault of its own"):
            engine.submit(sample(seed="x")).result()
        assert engine.stopped
        with pytest.raises(EngineGone):
            other.result()
        with pytest.raises(EngineGone):
            engine.submit(Stats()).result()
