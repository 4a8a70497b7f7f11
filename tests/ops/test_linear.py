"""The product against dense torch, and the promise that a row's bits are its own."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from motet.engine.ops.linear import BaseWeight, linear, linear_backward
from motet.engine.ops.lora import AdapterTensors, LoraBatch
from motet.engine.ops.native import library
from tests.ops.adapters import make_adapter, twin

DTYPES = [torch.float32, torch.bfloat16]
SHAPES = [(576, (576, 192, 192)), (65, (33, 7, 50)), (64, (112, 112)), (33, (1,)), (1056, (1100,))]
WAYS = [True, False] if library() is not None else [False]


def dense(
    x: Tensor, w: Tensor, rows: list[int], adapters: list[AdapterTensors | None], splits: tuple[int, ...]
) -> Tensor:
    """y in float64 from plain leaves: the oracle of forward and gradients."""
    y = [x[a:b] @ w.t() for a, b in zip(rows, rows[1:], strict=False)]
    for i, adapter in enumerate(adapters):
        if adapter is not None:
            flat, part = adapter.flat, x[rows[i] : rows[i + 1]]
            h = part @ adapter.a(0, flat) * adapter.scale
            b = adapter.b(0, flat)
            shares = [p @ q for p, q in zip(h.split(adapter.rank, 1), b.split(list(splits), 1), strict=True)]
            y[i] = y[i] + torch.cat(shares, 1)
    return torch.cat(y)


def in_double(adapter: AdapterTensors | None) -> AdapterTensors | None:
    if adapter is None:
        return None
    return AdapterTensors(adapter.flat.double().requires_grad_(), adapter.plan, adapter.rank, adapter.scale)


def close(got: Tensor, want: Tensor, dtype: torch.dtype) -> None:
    """Within float32 accumulation of float64, and one rounding where the result is bfloat16."""
    rtol = 2**-8 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(got.double(), want, rtol=rtol, atol=3e-5 * float(want.abs().max()))


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("d_in", "splits"), SHAPES)
def test_forward_and_gradients_are_those_of_dense_algebra(native, dtype, d_in, splits) -> None:
    torch.manual_seed(3)
    w = (torch.randn(sum(splits), d_in) * 0.1).to(dtype)
    weight = BaseWeight.pack(w, splits, native)
    bounds = [0, 3, 20, 20, 31]
    ranks = [5, 0, 0, 19]
    adapters = [make_adapter(rank, d_in, splits, dtype, True) if rank else None for rank in ranks]
    before = [None if a is None else a.grad.clone() for a in adapters]
    x = torch.randn(31, d_in).to(dtype).requires_grad_()
    y = linear(x, weight, LoraBatch(tuple(bounds), tuple(adapters)), 0)
    dy = torch.randn(y.shape).to(dtype)
    y.backward(dy)
    oracle = [in_double(a) for a in adapters]
    x_oracle = x.detach().double().requires_grad_()
    want = dense(x_oracle, w.double(), bounds, oracle, splits)
    want.backward(dy.double())
    close(y.detach(), want.detach(), dtype)
    close(x.grad, x_oracle.grad, dtype)
    for adapter, start, truth in zip(adapters, before, oracle, strict=True):
        if adapter is not None:
            close(adapter.grad - start, truth.flat.grad, torch.float32)


@pytest.mark.parametrize("native", WAYS)
def test_float32_logits_and_gradients_of_bfloat16_weights(native) -> None:
    w, x = torch.randn(300, 64).bfloat16(), torch.randn(9, 64).bfloat16()
    weight, dy = BaseWeight.pack(w, (300,), native), torch.randn(9, 300).bfloat16().float()
    close(linear(x, weight, None, 0, torch.float32), x.double() @ w.double().t(), torch.float32)
    close(linear_backward(x, dy, weight, None, 0), dy.double() @ w.double(), torch.bfloat16)
    assert linear_backward(x, dy, weight, None, 0, needs_dx=False) is None


@pytest.mark.skipif(library() is None, reason="the kernels are not here")
@settings(max_examples=40, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES),
    shape=st.sampled_from(SHAPES[:4]),
    cuts=st.lists(st.integers(0, 60), min_size=3, max_size=3),
    ranks=st.lists(st.sampled_from([0, 1, 3, 8, 16, 17, 50]), min_size=4, max_size=4),
    rows=st.integers(1, 60),
    seed=st.integers(0, 99),
)
def test_a_row_alone_has_the_bits_of_a_row_in_company(dtype, shape, cuts, ranks, rows, seed) -> None:
    torch.manual_seed(seed)
    d_in, splits = shape
    bounds = [0, *sorted(min(c, rows) for c in cuts), rows]
    adapters = [make_adapter(r, d_in, splits, dtype, True) if r else None for r in ranks]
    weight = BaseWeight.pack((torch.randn(sum(splits), d_in) * 0.1).to(dtype), splits)
    x = torch.randn(rows, d_in).to(dtype)
    dy = torch.randn(rows, sum(splits)).to(dtype)
    lora = LoraBatch(tuple(bounds), tuple(adapters))
    together, back = linear(x, weight, lora, 0), linear_backward(x, dy, weight, lora, 0)
    for row in range(rows):
        owner = next(a for a, stop in zip(adapters, bounds[1:], strict=True) if row < stop)
        alone = LoraBatch((0, 1), (owner,))
        assert torch.equal(linear(x[row : row + 1], weight, alone, 0)[0], together[row])
        assert torch.equal(linear_backward(x[row : row + 1], dy[row : row + 1], weight, alone, 0)[0], back[row])


@pytest.mark.skipif(library() is None, reason="the kernels are not here")
@settings(max_examples=40, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES),
    shape=st.sampled_from(SHAPES),
    rank=st.sampled_from([1, 5, 16, 33]),
    cuts=st.lists(st.integers(0, 70), max_size=4),
    seed=st.integers(0, 99),
)
def test_gradients_do_not_know_where_the_rows_were_cut(dtype, shape, rank, cuts, seed) -> None:
    torch.manual_seed(seed)
    d_in, splits = shape
    weight = BaseWeight.pack(torch.randn(sum(splits), d_in).to(dtype), splits)
    whole = make_adapter(rank, d_in, splits, dtype, True)
    cut, neighbour = twin(whole), make_adapter(7, d_in, splits, dtype, True)
    x, dy = torch.randn(70, d_in).to(dtype), torch.randn(70, sum(splits)).to(dtype)
    linear_backward(x, dy, weight, LoraBatch((0, 70), (whole,)), 0)
    places = [0, *sorted(cuts), 70]
    for start, stop in zip(places, places[1:], strict=False):
        extra = torch.randint(0, 20, ()).item()  # a neighbour's rows before ours
        rows = torch.cat([torch.randn(extra, d_in).to(dtype), x[start:stop]])
        grads = torch.cat([torch.randn(extra, sum(splits)).to(dtype), dy[start:stop]])
        lora = LoraBatch((0, extra, extra + stop - start), (neighbour, cut))
        linear_backward(rows, grads, weight, lora, 0, needs_dx=bool(seed % 2))
    assert torch.equal(whole.grad, cut.grad)


@pytest.mark.skipif(library() is None, reason="the kernels are not here")
@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_change_no_bit(dtype) -> None:
    d_in, splits = 576, (1536, 1536)
    weight = BaseWeight.pack(torch.randn(sum(splits), d_in).to(dtype), splits)
    x, dy = torch.randn(150, d_in).to(dtype), torch.randn(150, sum(splits)).to(dtype)
    adapters = [make_adapter(16, d_in, splits, dtype, True), make_adapter(9, d_in, splits, dtype, True)]
    results = []
    threads = torch.get_num_threads()
    for count in (1, 2):
        torch.set_num_threads(count)
        twins = [twin(a) for a in adapters]
        lora = LoraBatch((0, 80, 150), tuple(twins))
        y, dx = linear(x, weight, lora, 0), linear_backward(x, dy, weight, lora, 0)
        results.append([y, dx, *(t.grad for t in twins)])
    torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_head_much_wider_than_a_slice(dtype) -> None:
    """The backward takes a wide weight slice by slice: each may touch its own columns only, and its own memory."""
    torch.manual_seed(5)
    x, w = torch.randn(150, 64).to(dtype), (torch.randn(20_011, 64) * 0.1).to(dtype)
    dy = torch.randn(150, 20_011)
    packed = BaseWeight.pack(w, (20_011,))
    for _ in range(3):
        dx = linear_backward(x, dy, packed, None, 0)
    assert dx is not None
    want = dy.double() @ w.double()
    torch.testing.assert_close(dx.double(), want, rtol=2**-7 if dtype == torch.bfloat16 else 1e-4, atol=0.15)
