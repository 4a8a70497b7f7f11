"""Blocks: nobody's block is handed out twice, prefixes are found under their own version only."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from motet.engine.sampler.blocks import BLOCK, BlockTable, chain
from motet.engine.sampler.uniform import uniforms


def test_chain_depends_on_version_and_on_everything_before() -> None:
    tokens = np.arange(3 * BLOCK + 5)
    digests = chain("v1", tokens)
    assert len(digests) == 3
    assert chain("v1", tokens, 2, digests[1]) == digests[2:]
    assert set(chain("v2", tokens)).isdisjoint(digests)
    changed = tokens.copy()
    changed[0] += 1
    assert set(chain("v1", changed)).isdisjoint(digests)


def test_a_let_go_prefix_is_found_until_its_space_is_needed() -> None:
    table = BlockTable(4, idle_share=1.0)
    digests = chain("v", np.arange(2 * BLOCK))
    held = [table.take(), table.take()]
    for block, digest in zip(held, digests, strict=True):
        table.remember("v", block, digest)
        table.let_go(block)
    assert table.available() == 4
    assert table.match(digests) == held
    assert [table.take(), table.take()] != held
    assert table.available() == 0
    for block in held:
        table.let_go(block)
    assert table.take() == held[0]  # the oldest idle block went
    assert table.match(digests) == []


def test_one_owner_cannot_keep_everything() -> None:
    table = BlockTable(8, idle_share=0.25)
    digests = chain("greedy", np.arange(8 * BLOCK))
    for digest in digests:
        block = table.take()
        table.remember("greedy", block, digest)
        table.let_go(block)
    assert table.idle() == 2


@given(st.lists(st.tuples(st.sampled_from(["take", "go", "share", "know"]), st.integers(0, 30)), max_size=120))
def test_holders_and_free_blocks_always_add_up(moves: list[tuple[str, int]]) -> None:
    table, held, serial = BlockTable(6), list[int](), 0
    for move, pick in moves:
        if move == "take" and table.available():
            block = table.take()
            assert block not in held
            held.append(block)
        elif held:
            block = held[pick % len(held)]
            if move == "go":
                table.let_go(block)
                held.remove(block)
            elif move == "share":
                table.share(block)
                held.append(block)
            else:
                serial += 1
                table.remember("owner", block, serial.to_bytes(4, "big"))
        assert table.available() + len(set(held)) == 6


def test_uniform_numbers_depend_on_their_place_alone() -> None:
    seeds = np.array([1, 1, 1, 2], np.uint64)
    indices = np.array([0, 0, 1, 0], np.uint64)
    positions = np.array([5, 6, 5, 5], np.uint64)
    together = uniforms(seeds, indices, positions)
    assert len(set(together.tolist())) == 4
    for i in range(4):
        assert uniforms(seeds[i : i + 1], indices[i : i + 1], positions[i : i + 1])[0] == together[i]


def test_uniform_numbers_are_uniform() -> None:
    n = 200_000
    numbers = uniforms(np.full(n, 7, np.uint64), np.zeros(n, np.uint64), np.arange(n, dtype=np.uint64))
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    assert abs(counts - n / 20).max() < 5 * np.sqrt(n / 20)
