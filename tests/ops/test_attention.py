"""Attention against float64 algebra; paged and packed rows have the same bits; gradients keep to their group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from motet.engine.ops.attention import KVPool, PackedSequences, PagedRows, packed_attention, paged_attention
from motet.engine.ops.native import library

DTYPES = [torch.float32, torch.bfloat16]
WAYS = [True, False] if library() is not None else [False]
HEADS = [(9, 3, 64), (4, 2, 24), (6, 1, 40), (5, 5, 8), (2, 1, 128)]
kernels_only = pytest.mark.skipif(library() is None, reason="the kernels are not here")


def truth(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Causal attention in float64 of the last len(q) of len(k) positions."""
    group = q.shape[1] // k.shape[1]
    k, v = k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    scores = torch.einsum("nhe,the->hnt", q.double(), k) * scale
    hidden = torch.arange(k.shape[0])[None] > torch.arange(k.shape[0] - q.shape[0], k.shape[0])[:, None]
    return torch.einsum("hnt,the->nhe", scores.masked_fill(hidden, -torch.inf).softmax(-1), v)


def close(got: Tensor, want: Tensor, dtype: torch.dtype) -> None:
    tolerance = 2**-8 if dtype == torch.bfloat16 else 2e-6
    torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=tolerance * float(want.abs().max()) / 4 + 1e-6)


@dataclass
class Tokens:
    """Sequences in a pool with scattered blocks, and all their q, k, v."""

    q: list[Tensor]
    k: list[Tensor]
    v: list[Tensor]
    pool: KVPool
    tables: np.ndarray

    def rows(self, chosen: list[tuple[int, int, int]]) -> tuple[Tensor, PagedRows]:
        """Rows [start, stop) of sequences, as one batch."""
        counts = [stop - start for _, start, stop in chosen]
        q = torch.cat([self.q[s][start:stop] for s, start, stop in chosen])
        sequences = [s for s, _, _ in chosen]
        starts = np.array([start for _, start, _ in chosen], np.int32)
        return q, PagedRows(np.cumsum([0, *counts]).astype(np.int32), self.tables[sequences], starts)


def make_tokens(lengths: list[int], heads: tuple[int, int, int], dtype: torch.dtype, native: bool = True) -> Tokens:
    h, kv, e = heads
    q, k, v = ([torch.randn(t, n, e).to(dtype) for t in lengths] for n in (h, kv, kv))
    widest = max(-(-t // 16) for t in lengths)
    tables = np.random.default_rng(0).permutation(len(lengths) * widest).astype(np.int32).reshape(len(lengths), widest)
    pool = KVPool(2, tables.size + 1, kv, e, dtype, "cpu", native=native)
    pool.k.fill_(torch.nan), pool.v.fill_(torch.nan)  # nobody may look where nothing was written
    for s, t in enumerate(lengths):
        at = np.arange(t)
        pool.write(1, k[s], v[s], torch.from_numpy(tables[s, at // 16].astype(np.int64) * 16 + at % 16))
    return Tokens(q, k, v, pool, tables)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", HEADS)
def test_paged_attention_is_attention(native, dtype, heads) -> None:
    torch.manual_seed(0)
    tokens = make_tokens([37, 1, 16, 130], heads, dtype, native)
    q, rows = tokens.rows([(0, 30, 37), (1, 0, 1), (2, 0, 16), (3, 129, 130)])
    scale = heads[2] ** -0.5
    want = [truth(tokens.q[s], tokens.k[s], tokens.v[s], scale) for s in range(4)]
    got = paged_attention(q, tokens.pool, 1, rows, scale)
    close(got, torch.cat([want[0][30:], want[1], want[2], want[3][129:]]), dtype)


@pytest.mark.parametrize("native", WAYS)
def test_a_copied_block_reads_the_same(native) -> None:
    tokens = make_tokens([20], (4, 2, 24), torch.bfloat16, native)
    q, rows = tokens.rows([(0, 0, 20)])
    before = paged_attention(q, tokens.pool, 1, rows, 0.2)
    spare = tokens.tables.size
    tokens.pool.copy_block(int(tokens.tables[0, 1]), spare)
    tokens.tables[0, 1] = spare
    assert torch.equal(before, paged_attention(q, tokens.pool, 1, tokens.rows([(0, 0, 20)])[1], 0.2))


def tree(prefix: int, owns: list[int], start: int) -> tuple[list[np.ndarray], list[int]]:
    """A prefix and its members as sequences over rows from `start` on: key rows and query counts."""
    shared = np.arange(start, start + prefix)
    key_rows, counts, at = [shared], [prefix], start + prefix
    for own in owns:
        key_rows.append(np.concatenate([shared, np.arange(at, at + own)]))
        counts.append(own)
        at += own
    return key_rows, counts


def pack(groups: list[tuple[int, list[int]]]) -> PackedSequences:
    key_rows, counts, bounds, at = [], [], [0], 0
    for prefix, owns in groups:
        more, queries = tree(prefix, owns, at)
        key_rows, counts, at = key_rows + more, counts + queries, at + prefix + sum(owns)
        bounds.append(len(key_rows))
    return PackedSequences(
        np.concatenate(key_rows).astype(np.int32),
        np.cumsum([0, *map(len, key_rows)]).astype(np.int32),
        np.array(counts, np.int32),
        np.array(bounds, np.int32),
    )


GROUPS = [(21, [9, 1, 30]), (5, []), (40, [7, 7, 90])]


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", HEADS)
def test_packed_attention_and_its_gradients_are_those_of_float64(native, dtype, heads) -> None:
    torch.manual_seed(1)
    h, kv, e = heads
    packed, scale = pack(GROUPS), e**-0.5
    n = int(packed.key_rows.max()) + 1
    qkv = [torch.randn(n, heads_of, e).to(dtype).requires_grad_() for heads_of in (h, kv, kv)]
    out = packed_attention(*qkv, packed, scale, native)
    grad = torch.randn(out.shape).to(dtype)
    out.backward(grad)
    oracle = [x.detach().double().requires_grad_() for x in qkv]
    want = torch.zeros(n, h, e, dtype=torch.float64)
    for rows, count in zip(np.split(packed.key_rows, packed.key_bounds[1:-1]), packed.query_counts, strict=True):
        rows = torch.from_numpy(rows).long()
        want[rows[-count:]] = truth(oracle[0][rows[-count:]], oracle[1][rows], oracle[2][rows], scale)
    want.backward(grad.double())
    close(out.detach(), want.detach(), dtype)
    for x, x_oracle in zip(qkv, oracle, strict=True):
        torch.testing.assert_close(
            x.grad.double(), x_oracle.grad, rtol=2**-7 if dtype == torch.bfloat16 else 1e-5,
            atol=(2**-8 if dtype == torch.bfloat16 else 1e-6) * float(x_oracle.grad.abs().max()),
        )  # fmt: skip


@kernels_only
@settings(max_examples=25, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES),
    heads=st.sampled_from(HEADS),
    lengths=st.lists(st.integers(1, 90), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
def test_decode_prefill_and_training_give_a_row_the_same_bits(dtype, heads, lengths, seed) -> None:
    torch.manual_seed(seed)
    tokens, scale = make_tokens(lengths, heads, dtype), heads[2] ** -0.5
    q, rows = tokens.rows([(s, 0, t) for s, t in enumerate(lengths)])
    prefill = paged_attention(q, tokens.pool, 1, rows, scale)
    at = 0
    for s, t in enumerate(lengths):  # token by token
        for position in {0, t // 2, t - 1}:
            one = paged_attention(*_one(tokens, s, position), scale)
            assert torch.equal(one[0], prefill[at + position])
        at += t
    packed = pack([(t, []) for t in lengths])
    trained = packed_attention(q, torch.cat(tokens.k), torch.cat(tokens.v), packed, scale)
    assert torch.equal(trained, prefill)


def _one(tokens: Tokens, s: int, position: int) -> tuple[Tensor, KVPool, int, PagedRows]:
    q, rows = tokens.rows([(s, position, position + 1)])
    return q, tokens.pool, 1, rows


@kernels_only
@pytest.mark.parametrize("dtype", DTYPES)
def test_shared_rows_have_the_bits_of_rows_of_their_own(dtype) -> None:
    tokens = make_tokens([70], (9, 3, 64), dtype)
    q, rows = tokens.rows([(0, 0, 70)])
    alone = paged_attention(q, tokens.pool, 1, rows, 0.125)
    k, v = tokens.k[0], tokens.v[0]
    both = packed_attention(
        torch.cat([q, q[50:]]), torch.cat([k, k[50:]]), torch.cat([v, v[50:]]), pack([(50, [20, 20])]), 0.125
    )
    assert torch.equal(both[:70], alone) and torch.equal(both[70:], alone[50:])


@kernels_only
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_groups_gradients_are_the_same_beside_others_and_with_more_threads(dtype) -> None:
    torch.manual_seed(5)
    h, kv, e = 9, 3, 64
    threads = torch.get_num_threads()
    n = 30 + 200 + 7
    mine = [torch.randn(n, heads, e).to(dtype) for heads in (h, kv, kv, h)]

    def gradients(before: int, count: int) -> list[Tensor]:
        torch.set_num_threads(count)
        qkv = [torch.cat([torch.randn(before, *x.shape[1:]).to(dtype), x]).requires_grad_() for x in mine[:3]]
        packed = pack(([(before, [])] if before else []) + [(30, [200, 7])])
        out = packed_attention(*qkv, packed, e**-0.5)
        out.backward(torch.cat([torch.randn(before, h, e).to(dtype), mine[3]]))
        torch.set_num_threads(threads)
        return [out.detach()[before:], *(x.grad[before:] for x in qkv)]

    alone = gradients(0, 1)
    for other in (gradients(0, 2), gradients(33, 2), gradients(100, 1)):
        assert all(torch.equal(a, b) for a, b in zip(alone, other, strict=True))
