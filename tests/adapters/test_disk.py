"""What may go wrong on disk: files of a killed process, a full disk, a lost file, a snapshot of another base model."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from motet.engine.adapters.journal import read_gradient, write_gradient
from motet.engine.adapters.layout import make_layout
from motet.engine.adapters.residency import Residency
from motet.engine.adapters.snapshot import check_fits, copy_run, load_snapshot, save_snapshot
from motet.engine.adapters.store import AdapterStore
from motet.engine.models.config import ModelConfig, read_config
from motet.engine.trainer.optimizer import adamw_step
from motet.engine.types import AdamW, AdapterShape
from motet.errors import BadConfig, BadRequest, EngineFault
from tests.tiny import make_tiny_model

SHAPE = AdapterShape(rank=8)


@pytest.fixture
def config(tmp_path: Path) -> ModelConfig:
    return read_config(make_tiny_model(tmp_path, "llama"))


@pytest.fixture
def open_store(config: ModelConfig, tmp_path: Path) -> Callable[[], AdapterStore]:
    """Each call is another process's store over the same folder; three runs of SHAPE do not fit."""

    def opener() -> AdapterStore:
        device = torch.device("cpu")
        return AdapterStore(config, torch.bfloat16, device, tmp_path / "spill", budget_bytes=200_000, max_rank=16)

    return opener


def moved_out(store: AdapterStore, count: int) -> None:
    deadline = time.monotonic() + 10
    while store.counts()["swaps_out"] < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def spilled_version(store: AdapterStore, seed: int) -> torch.Tensor:
    """A version `v` that has left memory, and its weights."""
    run = store.create_run("run", SHAPE, seed)
    flat = store.publish(run, "v").flat.clone()
    store.create_run("pushes the others out", AdapterShape(rank=16), 0)
    moved_out(store, 2)
    return flat


def read_back(store: AdapterStore) -> torch.Tensor:
    version = store.acquire("v")
    store.wait_for(version)
    return version.flat


def test_files_of_a_killed_process_are_never_taken_for_ours(open_store: Callable, tmp_path: Path) -> None:
    spilled_version(open_store(), seed=1)  # this one is killed: it closes nothing
    left = sorted((tmp_path / "spill").iterdir())
    after = open_store()
    assert left and not list((tmp_path / "spill").iterdir())
    expected = spilled_version(after, seed=2)
    assert sorted((tmp_path / "spill").iterdir()) == left  # the same names again
    assert torch.equal(read_back(after), expected)


def test_closing_leaves_nothing_on_disk(open_store: Callable, tmp_path: Path) -> None:
    store = open_store()
    spilled_version(store, seed=1)
    assert list((tmp_path / "spill").iterdir())
    store.close()
    assert not list((tmp_path / "spill").iterdir())


def test_a_folder_that_cannot_be_had(open_store: Callable, tmp_path: Path) -> None:
    (tmp_path / "spill").write_text("a file")
    with pytest.raises(BadConfig, match="--data-dir"):
        open_store()


def test_a_lost_file_fails_whoever_asks_for_it_and_nobody_else(open_store: Callable, tmp_path: Path) -> None:
    store = open_store()
    spilled_version(store, seed=1)
    for file in (tmp_path / "spill").iterdir():
        file.unlink()
    with pytest.raises(EngineFault, match="failed"):
        read_back(store)
    with pytest.raises(EngineFault, match="failed"), store.training([store.run("run")]):
        pass
    with pytest.raises(EngineFault, match="failed"):
        store.run("run")
    assert store.run_ready("run")  # to fail at once
    with store.training([store.run("pushes the others out")]):
        pass
    store.drop_run("run")


def test_a_disk_that_takes_nothing_keeps_all_in_memory(open_store: Callable, tmp_path: Path) -> None:
    store = open_store()
    shutil.rmtree(tmp_path / "spill")
    masters = {}
    for seed in range(4):
        run = store.create_run(f"run-{seed}", SHAPE, seed)
        masters[run.name] = run.master.clone()
    time.sleep(0.1)
    for name, master in masters.items():
        run = store.run(name)
        with store.training([run]):
            assert torch.equal(run.master, master)
    assert store.counts()["swaps_out"] == 0


class Lost:
    """An item that leaves and never comes back."""

    key = "lost"

    def nbytes(self) -> int:
        return 30

    def spill(self) -> None: ...

    def load(self) -> None:
        raise EngineFault("gone")


def test_waiting_for_a_lost_item_ends(tmp_path: Path) -> None:
    residency = Residency(20)
    residency.add(Lost())
    with pytest.raises(EngineFault, match="gone"):
        while True:  # until it has left
            residency.wait("lost")
    residency.remove("lost")
    residency.close()


def test_what_was_read_is_no_longer_the_file_s(open_store: Callable, tmp_path: Path) -> None:
    """A tensor that is mapped from a file changes with it, and a truncated one kills the process."""
    run = open_store().create_run("run", SHAPE, 0)
    run.adapter.grad.fill_(2.0)  # type: ignore[union-attr]
    save_snapshot(tmp_path / "saved", copy_run(run))
    write_gradient(tmp_path / "gradient", run)
    snapshot, gradient = load_snapshot(tmp_path / "saved"), read_gradient(tmp_path / "gradient", run.layout)
    for file in (tmp_path / "saved" / "run.safetensors", tmp_path / "gradient"):
        with file.open("r+b") as handle:
            handle.write(bytes(file.stat().st_size))
            handle.truncate(10)
    assert torch.equal(snapshot.tensors["master"], run.master) and run.master.any()
    assert torch.equal(gradient, torch.full_like(run.master, 2.0))


def test_a_snapshot_of_another_base_model_is_refused(open_store: Callable, config: ModelConfig, tmp_path: Path) -> None:
    save_snapshot(tmp_path / "saved", copy_run(open_store().create_run("run", SHAPE, 0)))
    snapshot = load_snapshot(tmp_path / "saved")
    check_fits(snapshot, make_layout(config, SHAPE), tmp_path / "saved")
    other = read_config(make_tiny_model(tmp_path / "other", "llama", hidden_size=48))
    with pytest.raises(BadRequest, match="another base model"):
        check_fits(snapshot, make_layout(other, SHAPE), tmp_path / "saved")


def test_a_folder_is_written_whole_or_not_at_all(open_store: Callable, tmp_path: Path) -> None:
    run = copy_run(open_store().create_run("run", SHAPE, 0))
    with pytest.raises(EngineFault, match="cannot be written"):
        save_snapshot(tmp_path / "spill" / "run.json" / ("x" * 300), run)
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineFault, match="cannot be written"):
        save_snapshot(tmp_path / "file" / "saved", run)
    save_snapshot(tmp_path / "saved", run)
    with pytest.raises(BadRequest, match="exists"):
        save_snapshot(tmp_path / "saved", run)
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["run.json", "run.safetensors"]
    (tmp_path / "saved" / "run.json").write_text('{"shape": {"rank": 8}, "step": 0')
    with pytest.raises(EngineFault, match="torn"):
        load_snapshot(tmp_path / "saved")


def nan(tensor: torch.Tensor) -> torch.Tensor:
    return torch.full_like(tensor, torch.nan)


DAMAGE: dict[str, Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]] = {
    "short weights": lambda kept: {**kept, "master": kept["master"][:-1].clone()},
    "short moments": lambda kept: {**kept, "first_moment": kept["first_moment"][:9].clone()},
    "weights of another dtype": lambda kept: {**kept, "master": kept["master"].bfloat16()},
    "weights of another shape": lambda kept: {**kept, "master": kept["master"].view(2, -1)},
    "no weights": lambda kept: {"first_moment": kept["first_moment"], "second_moment": kept["second_moment"]},
    "half of the moments": lambda kept: {"master": kept["master"], "first_moment": kept["first_moment"]},
    "an unknown name": lambda kept: {**kept, "third_moment": kept["master"].clone()},
    "weights of NaN": lambda kept: {**kept, "master": nan(kept["master"])},
    "moments of NaN": lambda kept: {**kept, "second_moment": nan(kept["second_moment"])},
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_snapshot_is_told(open_store: Callable, tmp_path: Path, damage: Callable) -> None:
    """Before a kernel reads beyond its end, or a run goes on with what is none of its own."""
    store = open_store()
    run = store.create_run("run", SHAPE, 0)
    run.adapter.grad.fill_(0.1)  # type: ignore[union-attr]
    adamw_step(run, AdamW())
    save_snapshot(tmp_path / "saved", copy_run(run))
    file = tmp_path / "saved" / "run.safetensors"
    check_fits(load_snapshot(tmp_path / "saved"), run.layout, tmp_path / "saved")
    save_file(damage(load_file(file)), file)
    with pytest.raises((EngineFault, BadRequest)):
        check_fits(load_snapshot(tmp_path / "saved"), run.layout, tmp_path / "saved")


def test_a_name_for_what_is_half_written_is_nobody_s(open_store: Callable, tmp_path: Path) -> None:
    snapshot = copy_run(open_store().create_run("run", SHAPE, 0))
    for name in ("x.partial", "x"):
        save_snapshot(tmp_path / "names" / name, snapshot)
    assert sorted(path.name for path in (tmp_path / "names").iterdir()) == ["x", "x.partial"]


class Breaking:
    """An item that cannot be moved, for a reason that nobody foresaw."""

    key = "breaking"

    def __init__(self, leaves: bool) -> None:
        self.leaves = leaves

    def nbytes(self) -> int:
        return 30

    def spill(self) -> None:
        if not self.leaves:
            raise MemoryError

    def load(self) -> None:
        raise MemoryError


@pytest.mark.timeout(20)
def test_what_nobody_foresaw_while_moving_leaves_nobody_waiting() -> None:
    residency = Residency(20)
    residency.add(Breaking(leaves=False))
    for _ in range(20):
        residency.wait("breaking")  # it stays
    residency.close()
    residency = Residency(20)
    residency.add(Breaking(leaves=True))
    with pytest.raises(EngineFault, match="MemoryError"):
        while True:  # until it has left
            residency.wait("breaking")
    residency.close()
