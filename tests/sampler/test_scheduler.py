"""The scheduler without any tensors: every request comes to its end, however little room there is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from motet.engine.adapters.store import AdapterStore
from motet.engine.models.config import read_config
from motet.engine.sampler.blocks import BLOCK, BlockTable
from motet.engine.sampler.prompt import PromptReport
from motet.engine.sampler.scheduler import COMPANY, Scheduler
from motet.engine.sampler.sequence import Group
from motet.engine.turns.ledger import Ledger
from motet.engine.turns.policies import Fair
from motet.engine.types import AdapterShape, Payer, PromptQuery, SamplingParams
from motet.errors import BadRequest, Busy
from tests.tiny import make_tiny_model


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AdapterStore]:
    config = read_config(make_tiny_model(tmp_path, "llama"))
    store = AdapterStore(config, torch.float32, torch.device("cpu"), tmp_path / "spill", 10**9, max_rank=8)
    yield store
    store.close()


def group(
    store: AdapterStore,
    version: str | None,
    done: list[Group],
    max_tokens: int = 60,
    samples: int = 1,
    payer: Payer = Payer(),  # noqa: B008
) -> Group:
    prompt, params = np.arange(BLOCK + 1), SamplingParams()
    report = PromptReport(PromptQuery(), prompt, 1.0, 0, vocabulary=1000)
    held = None if version is None else store.acquire(version)
    return Group(prompt, params, 0, samples, max_tokens, frozenset(), (), held, report, 0, done.append, payer=payer)


def run_to_the_end(scheduler: Scheduler, steps: int = 500) -> None:
    """Every drawn token is 7; a sample ends at its `max_tokens`."""
    while not scheduler.idle():
        plan, steps = scheduler.plan(), steps - 1
        assert plan.chunks and steps > 0, "it stands still"
        for chunk in plan.chunks:
            scheduler.advance(chunk)
        for chunk in plan.chunks:
            member = chunk.sequence
            if chunk.draws:
                member.tokens.append(7)
                member.logprobs.append(-1.0)
                if len(member.logprobs) == member.group.max_tokens:
                    member.group.finished[member.index] = member.result("length")
                    scheduler.finish(member)


@pytest.mark.parametrize("mixed", [True, False])
def test_two_versions_that_do_not_fit_side_by_side(store: AdapterStore, mixed: bool) -> None:
    """Both prompts fit at once, the answers to both do not: the second waits, and the first goes on."""
    store.publish(store.create_run("run", AdapterShape(rank=2), 0), "v")
    table, done = BlockTable(8), list[Group]()
    scheduler = Scheduler(table, store, Ledger(Fair(), 1e9), 256, 16, mixed)
    scheduler.add(first := group(store, None, done))
    scheduler.add(second := group(store, "v", done))
    run_to_the_end(scheduler)
    assert done == [first, second]
    assert table.available() == 8 and scheduler.sizes()["kv_blocks_promised"] == 0


def test_members_are_born_as_room_is_given_back(store: AdapterStore) -> None:
    table, done = BlockTable(6), list[Group]()
    scheduler = Scheduler(table, store, Ledger(Fair(), 1e9), 256, 16)
    scheduler.add(group(store, None, done, max_tokens=20, samples=5))
    run_to_the_end(scheduler)
    assert sorted(done[0].finished) == [0, 1, 2, 3, 4]
    assert table.available() == 6 and scheduler.sizes()["kv_blocks_promised"] == 0


def test_who_is_taken_back_or_cannot_go_on_gives_everything_back(store: AdapterStore) -> None:
    table, done = BlockTable(8), list[Group]()
    scheduler = Scheduler(table, store, Ledger(Fair(), 1e9), 256, 16)
    scheduler.add(faulty := group(store, None, done))
    scheduler.add(waiting := group(store, None, done, max_tokens=100))
    for chunk in scheduler.plan().chunks:
        scheduler.advance(chunk)
    faulty.fault, waiting.cancelled = BadRequest("NaN"), True
    scheduler.plan()
    assert scheduler.idle() and set(map(id, done)) == {id(faulty), id(waiting)}
    assert table.available() == 8 and scheduler.sizes()["kv_blocks_promised"] == 0


def test_what_never_fits_and_what_does_not_fit_now(store: AdapterStore) -> None:
    scheduler = Scheduler(BlockTable(4), store, Ledger(Fair(), 1e9), 256, max_waiting=1)
    with pytest.raises(BadRequest, match="lower max_tokens"):
        scheduler.add(group(store, None, []))
    scheduler.add(group(store, None, [], max_tokens=4))
    with pytest.raises(Busy, match="later"):
        scheduler.add(group(store, None, [], max_tokens=4))


@pytest.mark.parametrize("seed", range(8))
def test_whatever_mix_of_answers_and_rollouts_ends(store: AdapterStore, seed: int) -> None:
    """Blocks are kept free for answers from the first one on; nobody waits for ever for them."""
    chance = random.Random(seed)
    table, done = BlockTable(16), list[Group]()
    scheduler = Scheduler(table, store, Ledger(Fair(), 1e9, serving_part=0.5), 256, 64)
    for _ in range(12):
        payer = Payer(share=chance.choice("ab"), serving=chance.random() < 0.5)
        size, samples = chance.randrange(1, 12 * BLOCK), chance.randrange(1, 5)
        scheduler.add(group(store, None, done, size, samples, payer))
    run_to_the_end(scheduler, 20_000)
    assert len(done) == 12 and table.available() == 16 and scheduler.sizes()["kv_blocks_promised"] == 0


def test_an_answer_finds_room_beside_a_crowd_of_rollouts(store: AdapterStore) -> None:
    """Once there was an answer, rollouts leave room for the next one, which begins at once and has little company."""
    table, done = BlockTable(64), list[Group]()
    ledger = Ledger(Fair(), 1e9, serving_part=0.5)
    scheduler = Scheduler(table, store, ledger, 256, 64)
    answer = Payer(share="red", serving=True)
    scheduler.add(group(store, None, done, 1, payer=answer))
    run_to_the_end(scheduler)
    scheduler.add(group(store, None, done, 4, samples=200, payer=Payer("run")))
    for _ in range(3):
        for chunk in scheduler.plan().chunks:
            scheduler.advance(chunk)
            if chunk.draws:
                chunk.sequence.tokens.append(7)
                chunk.sequence.logprobs.append(-1.0)
    full = [chunk for chunk in scheduler.plan().chunks if chunk.draws]
    assert len(full) > COMPANY
    scheduler.add(late := group(store, None, done, 4, payer=answer))
    chunks = scheduler.plan().chunks
    assert any(chunk.sequence.group is late for chunk in chunks)
    assert sum(chunk.sequence.group is not late for chunk in chunks) <= COMPANY
