"""Promise 3, the engine's part: a run restored from its journal is the run that nobody disturbed, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from motet.engine.core.engine import Engine
from motet.engine.core.requests import (
    CreateRun,
    ForwardBackward,
    LoadVersion,
    OptimStep,
    Publish,
    RestoreRun,
    SaveRun,
    SaveVersion,
)
from motet.engine.types import (
    AdamW,
    AdapterShape,
    Datum,
    FreshAdapter,
    JournaledStep,
    Loss,
    PublishResult,
    RunState,
    SavedRun,
)
from motet.errors import BadRequest, EngineFault, NotFinite, NotFound

ADAMS = (
    AdamW(learning_rate=0.02),
    AdamW(learning_rate=0.01, weight_decay=0.1),
    AdamW(learning_rate=0.03, grad_clip_norm=0.5),
    AdamW(learning_rate=0.02, beta1=0.8, beta2=0.99, eps=1e-8),
)
SNAPSHOT_AT = 2


@dataclass(frozen=True)
class Voice:
    """A run of the tests: its shape, its seed."""

    name: str
    shape: AdapterShape
    seed: int

    @property
    def fresh(self) -> FreshAdapter:
        return FreshAdapter(self.shape, self.seed)


VOICES = (
    Voice("low", AdapterShape(rank=1, alpha=8), 1),
    Voice("middle", AdapterShape(rank=8, mlp=False), 2),
    Voice("high", AdapterShape(rank=16, unembed=True), 3),
)


@dataclass(frozen=True)
class Ending:
    """What a run becomes: its state with a gradient waiting, its version after the next step, its state then."""

    waiting: dict[str, torch.Tensor]
    published: PublishResult
    after: dict[str, torch.Tensor]


def data(seed: int) -> tuple[Datum, ...]:
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(0, 250, length) for length in (9, 30, 17)]
    return tuple(Datum(tokens[:-1], tokens[1:]) for tokens in drawn)


def learn(engine: Engine, voice: Voice, number: int, journal: Path) -> JournaledStep:
    """A step on two accumulated requests."""
    for part in range(2):
        engine.submit(ForwardBackward(voice.name, data(voice.seed + 10 * number + part), Loss()))
    step = JournaledStep(str(journal / f"{voice.name}-{number}.safetensors"), ADAMS[number % len(ADAMS)])
    engine.submit(OptimStep(voice.name, step.adam, step.file))
    return step


def state(engine: Engine, voice: Voice, folder: Path) -> dict[str, torch.Tensor]:
    engine.submit(SaveRun(voice.name, str(folder))).result()
    return load_file(folder / "run.safetensors")


def end(engine: Engine, voice: Voice, folder: Path) -> Ending:
    """The same last steps for every run, restored or not."""
    engine.submit(ForwardBackward(voice.name, data(99), Loss())).result()
    waiting = state(engine, voice, folder / f"{voice.name}-waiting")
    engine.submit(OptimStep(voice.name, AdamW(learning_rate=0.05, grad_clip_norm=1.0))).result()
    published = engine.submit(Publish(voice.name, f"{voice.name}/end")).result()
    return Ending(waiting, published, state(engine, voice, folder / f"{voice.name}-after"))


def same(restored: Ending, undisturbed: Ending) -> None:
    for kind in ("waiting", "after"):
        got, expected = getattr(restored, kind), getattr(undisturbed, kind)
        assert got.keys() == expected.keys()
        for key in expected:
            assert torch.equal(got[key], expected[key]), (kind, key)
    assert restored.published.content_hash == undisturbed.published.content_hash
    assert restored.published.number == undisturbed.published.number == 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_from_seed_and_from_snapshot(engine_on: Callable, tmp_path: Path, dtype: str) -> None:
    journal, crowded = tmp_path / "journal", 500_000  # not all three fit into it
    steps: dict[str, list[JournaledStep]] = {voice.name: [] for voice in VOICES}
    with engine_on(dtype=dtype) as engine:
        for voice in VOICES:
            engine.submit(CreateRun(voice.name, voice.shape, voice.seed)).result()
        for number in range(5):
            for voice in VOICES:
                steps[voice.name].append(learn(engine, voice, number, journal))
                if number + 1 == SNAPSHOT_AT:
                    engine.submit(SaveRun(voice.name, str(tmp_path / "snapshots" / voice.name)))
                    engine.submit(Publish(voice.name, f"{voice.name}/1"))
        undisturbed = {voice.name: end(engine, voice, tmp_path / "undisturbed") for voice in VOICES}
    for kind in ("seed", "snapshot"):
        with engine_on(dtype=dtype, host_bytes=crowded) as engine:
            for voice in VOICES:
                origin: FreshAdapter | SavedRun = voice.fresh
                taken = tuple(steps[voice.name])
                if kind == "snapshot":
                    origin, taken = SavedRun(str(tmp_path / "snapshots" / voice.name)), taken[SNAPSHOT_AT:]
                restored = engine.submit(RestoreRun(voice.name, origin, taken, published=1)).result()
                assert restored == RunState(voice.shape, 5, has_gradient=False)
            for voice in VOICES:
                same(end(engine, voice, tmp_path / kind), undisturbed[voice.name])
            assert engine.stats()["swaps_in"] > 0


def test_a_snapshot_with_a_waiting_gradient(engine_on: Callable, tmp_path: Path) -> None:
    voice = VOICES[1]
    with engine_on() as engine:
        engine.submit(CreateRun(voice.name, voice.shape, voice.seed)).result()
        engine.submit(ForwardBackward(voice.name, data(1), Loss()))
        before = state(engine, voice, tmp_path / "before")
        step = learn(engine, voice, 0, tmp_path)
        stepped = state(engine, voice, tmp_path / "stepped")
    with engine_on() as engine:
        origin = SavedRun(str(tmp_path / "before"))
        assert engine.submit(RestoreRun("waits", origin)).result() == RunState(voice.shape, 0, has_gradient=True)
        engine.submit(SaveRun("waits", str(tmp_path / "again"))).result()
        again = load_file(tmp_path / "again" / "run.safetensors")
        assert all(torch.equal(again[key], before[key]) for key in ("master", "gradient"))
        assert not engine.submit(RestoreRun("went on", origin, (step,))).result().has_gradient
        engine.submit(SaveRun("went on", str(tmp_path / "on"))).result()
        on = load_file(tmp_path / "on" / "run.safetensors")
        assert on.keys() == stepped.keys() and all(torch.equal(on[key], stepped[key]) for key in on)


def test_the_gradient_stands_when_the_step_is_told(engine_on: Callable, tmp_path: Path) -> None:
    voice = VOICES[2]
    with engine_on() as engine:
        engine.submit(CreateRun(voice.name, voice.shape, voice.seed)).result()
        for number in range(3):
            engine.submit(ForwardBackward(voice.name, data(number), Loss())).result()
            waiting = state(engine, voice, tmp_path / f"waiting-{number}")
            file = tmp_path / "runs" / voice.name / f"{number + 1}.safetensors"
            told = engine.submit(OptimStep(voice.name, AdamW(grad_clip_norm=1e-3), str(file))).result()
            assert told.step == number + 1
            assert list(load_file(file)) == ["gradient"]
            assert torch.equal(load_file(file)["gradient"], waiting["gradient"])  # before clipping
        assert sorted(path.name for path in file.parent.iterdir()) == [f"{n}.safetensors" for n in (1, 2, 3)]
        engine.submit(OptimStep(voice.name, AdamW(), str(tmp_path / "none.safetensors"))).result()
        assert not load_file(tmp_path / "none.safetensors")["gradient"].any()  # a step on no gradient is one on zeros


def test_a_gradient_that_is_no_number_is_not_journaled(engine_on: Callable, tmp_path: Path) -> None:
    voice, file = VOICES[1], tmp_path / "gradient"
    tokens = np.arange(8)
    huge = Datum(tokens[:-1], tokens[1:], weights=np.full(7, 3e38, np.float32))
    with engine_on() as engine:
        engine.submit(CreateRun(voice.name, voice.shape, voice.seed)).result()
        engine.submit(ForwardBackward(voice.name, (huge, huge), Loss())).result()
        with pytest.raises(NotFinite, match="cleared"):
            engine.submit(OptimStep(voice.name, AdamW(), str(file))).result()
        with pytest.raises(BadRequest, match="beta1"):
            engine.submit(OptimStep(voice.name, AdamW(beta1=2), str(file))).result()
        assert not file.exists()
        engine.submit(ForwardBackward(voice.name, data(1), Loss()))
        assert engine.submit(OptimStep(voice.name, AdamW(), str(file))).result().step == 1


def tear(file: Path, how: str) -> None:
    whole = file.read_bytes()
    if how == "truncated":
        file.write_bytes(whole[: len(whole) // 2])
    elif how == "zero bytes":
        file.write_bytes(b"")
    elif how == "zeroed":
        file.write_bytes(bytes(len(whole)))
    elif how == "of another run":
        save_file({key: tensor[:-1].clone() for key, tensor in load_file(file).items()}, file)
    elif how == "another type":
        save_file({key: tensor.bfloat16() for key, tensor in load_file(file).items()}, file)
    else:
        file.unlink()


TEARS = ("truncated", "zero bytes", "zeroed", "of another run", "another type", "missing")


def test_torn_files_are_refused_and_leave_no_run(engine_on: Callable, tmp_path: Path) -> None:
    voice = VOICES[1]
    with engine_on() as engine:
        engine.submit(CreateRun(voice.name, voice.shape, voice.seed)).result()
        steps = [learn(engine, voice, number, tmp_path / "journal") for number in range(2)]
        state(engine, voice, tmp_path / "saved")
        gradient, saved = Path(steps[1].file), tmp_path / "saved" / "run.safetensors"
        good = {gradient: gradient.read_bytes(), saved: saved.read_bytes()}
        for how in TEARS:
            tear(gradient, how)
            with pytest.raises(EngineFault, match="journaled gradient"):
                engine.submit(RestoreRun("again", voice.fresh, tuple(steps))).result()
            gradient.write_bytes(good[gradient])
            tear(saved, how)
            with pytest.raises((EngineFault, BadRequest), match="torn|another base model"):
                engine.submit(RestoreRun("again", SavedRun(str(tmp_path / "saved")))).result()
            saved.write_bytes(good[saved])
        (tmp_path / "saved" / "run.json").write_text("")
        with pytest.raises(EngineFault, match="torn"):
            engine.submit(RestoreRun("again", SavedRun(str(tmp_path / "saved")))).result()
        with pytest.raises(NotFound):
            engine.submit(RestoreRun("again", SavedRun(str(tmp_path / "nowhere")))).result()
        assert engine.submit(RestoreRun("again", voice.fresh, tuple(steps))).result().step == 2
        with pytest.raises(BadRequest, match="exists"):
            engine.submit(RestoreRun("again", voice.fresh, tuple(steps))).result()
        assert engine.stats()["runs"] == 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_version_comes_back_as_what_it_was(engine_on: Callable, tmp_path: Path, dtype: str) -> None:
    published = {}
    with engine_on(dtype=dtype) as engine:
        for voice in VOICES:
            engine.submit(CreateRun(voice.name, voice.shape, voice.seed)).result()
            learn(engine, voice, 0, tmp_path)
            published[voice.name] = engine.submit(Publish(voice.name, voice.name)).result()
            engine.submit(SaveVersion(voice.name, str(tmp_path / voice.name))).result()
    with engine_on(dtype=dtype) as engine:
        for voice in VOICES:
            loaded = engine.submit(LoadVersion("v", str(tmp_path / voice.name), number=7)).result()
            assert (loaded.number, loaded.content_hash) == (7, published[voice.name].content_hash)


def test_fingerprints_tell_engines_apart(engine_on: Callable) -> None:
    with engine_on() as engine, engine_on() as twin, engine_on(dtype="bfloat16") as other:
        assert engine.info.fingerprint == twin.info.fingerprint != other.info.fingerprint
        assert engine.info.base_hash == other.info.base_hash
