"""The store: what goes to disk comes back as it was, what is held stays, and versions are what they were."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import torch

from motet.engine.adapters.layout import fresh_weights, make_layout
from motet.engine.adapters.residency import Residency
from motet.engine.adapters.run import Run
from motet.engine.adapters.store import AdapterStore
from motet.engine.models.config import read_config
from motet.engine.trainer.optimizer import adamw_step
from motet.engine.types import AdamW, AdapterShape
from motet.errors import BadRequest, EngineFault, NotFound
from tests.service.running import wait_until
from tests.tiny import make_tiny_model


@pytest.fixture
def store(tmp_path: Path) -> AdapterStore:
    config = read_config(make_tiny_model(tmp_path, "llama"))
    return AdapterStore(
        config,
        torch.bfloat16,
        torch.device("cpu"),
        tmp_path / "spill",
        budget_bytes=600_000,
        max_rank=16,
    )


def touch(run: Run, value: float) -> None:
    """A step with a known gradient, and a gradient left over."""
    run.adapter.grad.fill_(value)  # type: ignore[union-attr]
    run.has_gradient = True
    adamw_step(run, AdamW(learning_rate=0.1))
    run.adapter.grad.fill_(value / 2)  # type: ignore[union-attr]
    run.has_gradient = True


def state(run: Run) -> dict[str, torch.Tensor]:
    return {key: tensor.clone() for key, tensor in run.state().items()}


def test_many_runs_under_a_small_budget_are_what_they_would_be_alone(store: AdapterStore) -> None:
    expected = {}
    for i in range(12):
        run = store.create_run(f"run-{i}", AdapterShape(rank=4 + i % 3), seed=i)
        with store.training([run]):
            touch(run, float(i + 1))
            expected[run.name] = state(run)
    for i in [7, 0, 11, 3, 3, 8]:
        run = store.run(f"run-{i}")
        with store.training([run]):
            got = state(run)
            assert got.keys() == expected[run.name].keys() and len(got) == 4
            assert all(torch.equal(got[key], expected[run.name][key]) for key in got)
            assert torch.equal(run.compute, run.master.bfloat16())
            assert run.step == 1
    time.sleep(0.2)
    assert store.residency.used_bytes() <= 600_000
    assert store.counts()["swaps_out"] > 0 and store.counts()["swaps_in"] > 0


def test_an_unready_run_is_on_its_way(store: AdapterStore) -> None:
    arrived = threading.Event()
    store.residency.on_ready = arrived.set
    for i in range(12):
        run = store.create_run(f"run-{i}", AdapterShape(rank=8), seed=i)
        with store.training([run]):
            touch(run, 1.0)
    time.sleep(0.2)
    arrived.clear()
    assert not store.run_ready("run-0")
    while not store.run_ready("run-0"):
        assert arrived.wait(5)
        arrived.clear()
    assert store.run_ready("nobody")


def test_a_version_stays_what_it_was(store: AdapterStore) -> None:
    run = store.create_run("run", AdapterShape(rank=8), seed=1)
    first = store.publish(run, "v1")
    kept = first.flat.clone()
    held = store.acquire("v1")
    touch(run, 1.0)
    second = store.publish(run, "v2")
    assert (first.number, second.number) == (1, 2) and first.content_hash != second.content_hash
    store.drop_version("v1")
    for i in range(12):
        store.create_run(f"other-{i}", AdapterShape(rank=16), seed=i)
    with pytest.raises(NotFound):
        store.acquire("v1")
    assert torch.equal(held.flat, kept)
    assert store.release(held)
    assert not first.file.exists()


def test_a_version_on_disk_comes_back_bit_for_bit(store: AdapterStore) -> None:
    run = store.create_run("run", AdapterShape(rank=8), seed=1)
    touch(run, 1.0)
    kept = store.publish(run, "v").flat.clone()
    for i in range(12):
        store.create_run(f"other-{i}", AdapterShape(rank=16), seed=i)
    time.sleep(0.3)
    version = store.acquire("v")
    store.wait_for(version)
    assert torch.equal(version.flat, kept) and version.file.exists()


def test_shapes_that_cannot_be(store: AdapterStore) -> None:
    nothing = AdapterShape(attention=False, mlp=False)
    strange = [AdapterShape(alpha=alpha) for alpha in (0.0, -1.0, float("nan"), float("inf"))]
    for shape in (AdapterShape(rank=0), AdapterShape(rank=17), nothing, *strange):
        with pytest.raises(BadRequest):
            store.create_run("bad", shape, 0)
    store.create_run("run", AdapterShape(rank=1), 0)
    with pytest.raises(BadRequest, match="exists"):
        store.create_run("run", AdapterShape(rank=1), 0)


class Slow:
    """An item whose copies take a while."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.moves: list[str] = []

    def nbytes(self) -> int:
        return 10

    def spill(self) -> None:
        self.moves.append("out")

    def load(self) -> None:
        time.sleep(0.2)
        self.moves.append("in")


class Leaving(Slow):
    """An item whose way out takes until it is told to go."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.on_its_way, self.go = threading.Event(), threading.Event()

    def spill(self) -> None:
        self.on_its_way.set()
        assert self.go.wait(10)


def test_who_asks_for_an_item_on_its_way_out_hears_of_it() -> None:
    """The training lane sleeps until `on_ready`: it must not sleep for ever."""
    residency, item, asked_again = Residency(10), Leaving("a"), threading.Event()
    residency.on_ready = lambda: asked_again.set() if residency.ready("a") else None
    residency.add(item)
    residency.add(Slow("b"))
    assert item.on_its_way.wait(10) and not residency.ready("a")
    item.go.set()
    assert asked_again.wait(10)
    residency.close()


def test_a_swap_blocks_nobody_else() -> None:
    residency = Residency(20)
    items = {key: Slow(key) for key in "abc"}
    for item in items.values():
        residency.add(item)
    time.sleep(0.05)
    assert items["a"].moves == ["out"]
    assert not residency.ready("a")
    began = time.perf_counter()
    residency.pin("c")
    residency.wait("c")
    assert time.perf_counter() - began < 0.1
    residency.pin("a")
    residency.wait("a")
    assert items["a"].moves == ["out", "in"]
    residency.close()


def test_a_matrix_is_drawn_from_the_seed_and_its_place_whatever_else_is_trained(tmp_path: Path) -> None:
    config = read_config(make_tiny_model(tmp_path, "qwen3"))
    everything, mlp = (
        make_layout(config, AdapterShape(rank=4, attention=attention, mlp=True, unembed=attention))
        for attention in (True, False)
    )
    drawn = {layout: fresh_weights(layout, 5) for layout in (everything, mlp)}
    for many, one in zip(everything.plan, mlp.plan, strict=True):
        if one is None or many is None:
            continue
        a = drawn[everything][many.a_start : many.b_start]
        assert torch.equal(a, drawn[mlp][one.a_start : one.b_start])
        bound = one.d_in**-0.5
        assert a.abs().max() <= bound and a.std() == pytest.approx(bound / 3**0.5, rel=0.1)
        assert drawn[everything][many.b_start : many.b_start + many.d_in].count_nonzero() == 0


def test_nobody_adds_more_while_memory_fills_faster_than_the_disk_takes() -> None:
    residency, item, told = Residency(10), Leaving("a"), threading.Event()
    residency.on_ready = told.set
    residency.add(item)
    assert residency.has_room()
    residency.add(Slow("b"))
    assert item.on_its_way.wait(10) and not residency.has_room()
    told.clear()
    item.go.set()
    assert told.wait(10) and residency.has_room()
    residency.close()


def test_waiting_for_room_ends_where_nothing_can_leave() -> None:
    residency = Residency(10)
    for key in "ab":
        residency.add(Slow(key))
        residency.pin(key)
    assert residency.has_room()
    residency.close()


class Full(Slow):
    """An item that the disk has no room for."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.tried = threading.Event()

    def spill(self) -> None:
        self.tried.set()
        raise EngineFault("the disk is full")


def test_waiting_for_room_ends_where_the_disk_takes_no_more() -> None:
    residency, items = Residency(10), [Full("a"), Full("b")]
    for item in items:
        residency.add(item)
    assert items[0].tried.wait(10)
    wait_until(residency.has_room)
    residency.close()
