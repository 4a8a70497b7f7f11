"""Row-wise operations against torch in float64, and against themselves in other company."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from motet.engine.ops.native import library
from motet.engine.ops.rows import rms_norm, rope, swiglu

DTYPES = [torch.float32, torch.bfloat16]
WAYS = [True, False] if library() is not None else [False]


def norm_truth(x: Tensor, w: Tensor) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * w


def rope_truth(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * cos[:, None] + torch.cat([-b, a], -1) * sin[:, None]


def swiglu_truth(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def compare(make, truth, native: bool, dtype: torch.dtype, *tensors: Tensor) -> None:
    """Result and gradient by the first tensor against float64."""
    x = tensors[0].clone().requires_grad_()
    y = make(x, *tensors[1:], native=native)
    grad = torch.randn(y.shape).to(dtype)
    y.backward(grad)
    oracle = tensors[0].double().requires_grad_()
    want = truth(oracle, *(t.double() for t in tensors[1:]))
    want.backward(grad.double())
    roundings = 2**-7 if dtype == torch.bfloat16 else 3e-6  # two roundings in a norm
    for got, expected in ((y, want), (x.grad, oracle.grad)):
        atol = roundings * float(expected.detach().abs().max()) / 8
        torch.testing.assert_close(got.detach().double(), expected.detach(), rtol=roundings, atol=atol)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [8, 30, 64, 576])
def test_rows_against_float64(native, dtype, width) -> None:
    torch.manual_seed(width)
    x = torch.randn(13, width).to(dtype)
    weight = torch.rand(width).to(dtype)
    compare(lambda x, w, native: rms_norm(x, w, 1e-5, native), norm_truth, native, dtype, x, weight)
    compare(swiglu, swiglu_truth, native, dtype, torch.randn(13, 2 * width).to(dtype) * 4)
    heads = torch.randn(13, 3, width).to(dtype)
    compare(rope, rope_truth, native, dtype, heads, torch.randn(13, width).to(dtype), torch.randn(13, width).to(dtype))


@pytest.mark.parametrize("native", WAYS)
def test_norm_per_head_of_a_slice_and_extremes(native) -> None:
    qkv = torch.randn(5, 96)
    heads = qkv[:, 16:64].view(5, 2, 24)
    torch.testing.assert_close(rms_norm(heads, torch.ones(24), 1e-5, native), norm_truth(heads, torch.ones(24)))
    cos, sin = torch.randn(5, 24), torch.randn(5, 24)
    torch.testing.assert_close(rope(heads, cos, sin, native), rope_truth(heads, cos, sin))
    far = torch.tensor([[200.0, -200.0, torch.nan, 0.0, 1, 2, 3, 4]])
    torch.testing.assert_close(swiglu(far, native), swiglu_truth(far), equal_nan=True)


@pytest.mark.skipif(library() is None, reason="the kernels are not here")
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_alike_in_any_company(dtype) -> None:
    x, w = torch.randn(70, 576).to(dtype), torch.randn(576).to(dtype)
    for rows in (slice(3, 4), slice(10, 45)):
        assert torch.equal(rms_norm(x, w, 1e-5)[rows], rms_norm(x[rows].clone(), w, 1e-5))
        assert torch.equal(swiglu(x)[rows], swiglu(x[rows].clone()))
        heads = x.view(70, 9, 64)
        cos, sin = heads[:, 0], heads[:, 1]
        assert torch.equal(rope(heads, cos, sin)[rows], rope(heads[rows], cos[rows], sin[rows]))
