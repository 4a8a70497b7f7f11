"""The probe of the machine gives way to whoever asks, and gives the same answer twice."""

from __future__ import annotations

import torch

from motet.engine.models.dtype import choose_dtype


def test_what_is_asked_is_given() -> None:
    assert choose_dtype("float32", "cpu") is torch.float32
    assert choose_dtype("bfloat16", "cpu") is torch.bfloat16


def test_the_probe_is_steady_and_leaves_the_generator_of_others_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    assert len({choose_dtype("auto", "cpu") for _ in range(5)}) == 1
    assert torch.equal(torch.rand(4), expected)
