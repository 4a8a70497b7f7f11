"""Numbers that go elsewhere too: real TensorBoard files of a real run, read back record by record."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from motet.cli import app
from motet.errors import BadConfig
from motet.lab.experiments.progress import Accuracy
from motet.lab.experiments.seeing.folder import read_sweep
from motet.lab.experiments.trackers.base import Subject, numbers_of
from motet.lab.experiments.trackers.choosing import LOADERS, choose
from tests.lab.steps import step


def scalars(folder: Path) -> Iterator[tuple[str, int, float]]:
    """Name, step and value of every scalar in a folder's event files (length, checksum, record, checksum)."""
    proto = pytest.importorskip("tensorboardX.proto.event_pb2")
    for file in sorted(folder.glob("events.*")):
        rest = file.read_bytes()
        while rest:
            (length,) = struct.unpack("<Q", rest[:8])
            event = proto.Event.FromString(rest[12 : 12 + length])
            rest = rest[16 + length :]
            yield from ((value.tag, event.step, value.simple_value) for value in event.summary.value)


def test_numbers_by_hand() -> None:
    found = dict(numbers_of(step(3, reward=0.25, algorithm={"kl": 0.5}, loss=None)))
    assert (found["reward"], found["seconds/sampling"], found["outcomes/right"], found["algorithm/kl"]) == (
        0.25,
        2.0,
        2.0,
        0.5,
    )
    assert "loss" not in found and "step" not in found and found["findings"] == 0.0


def test_tensorboard_shows_what_the_record_holds(folder: Path) -> None:
    pytest.importorskip("tensorboardX")
    one = read_sweep(folder).experiments[0]
    found = {(name, at): value for name, at, value in scalars(one.folder / "tensorboard")}
    for metrics in one.steps:
        for name, value in numbers_of(metrics):
            assert math.isclose(found[name, metrics.step], value, rel_tol=1e-6, abs_tol=1e-9)
    assert {at for name, at in found if name == "held_out/mean"} == {0, 2, 3}


def test_going_on_hides_what_was_lost(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    for done in (0, 1):  # the second life goes on after step 1
        trackers = choose(["tensorboard"])(Subject("s", "e", {}, tmp_path, done))
        trackers.step(step(done + 1, reward=float(done)))
        trackers.accuracy(done + 1, Accuracy.of([1.0]))
        trackers.close()
    proto = pytest.importorskip("tensorboardX.proto.event_pb2")
    later = sorted((tmp_path / "tensorboard").glob("events.*"))[-1].read_bytes()
    kinds = []
    while later:
        (length,) = struct.unpack("<Q", later[:8])
        event = proto.Event.FromString(later[12 : 12 + length])
        later = later[16 + length :]
        kinds.append((event.step, event.session_log.status))
    assert (2, proto.SessionLog.START) in kinds  # TensorBoard drops earlier events from step 2 on


def test_what_is_not_there_is_told_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadConfig, match="there are tensorboard, trackio, wandb"):
        choose(["tensorbord"])
    for name, library in (("wandb", "wandb"), ("trackio", "trackio"), ("tensorboard", "tensorboardX")):
        monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
        monkeypatch.delitem(sys.modules, f"motet.lab.experiments.trackers.{name}", raising=False)
        with pytest.raises(BadConfig, match=rf"pip install 'motet\[{name}\]'"):
            choose([name])
    assert set(LOADERS) == {"tensorboard", "trackio", "wandb"}
    file = tmp_path / "one.toml"
    file.write_text('model = "pocket"\n')
    told = CliRunner().invoke(app, ["run", str(file), "--track", "wandb", "--out", str(tmp_path / "out")])
    assert told.exit_code == 2 and not (tmp_path / "out").exists()
