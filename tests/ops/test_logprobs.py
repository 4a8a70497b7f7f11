"""Log-probabilities, their gradient, and whether drawn tokens follow their distribution."""

from __future__ import annotations

import pytest
import torch

from motet.engine.ops.logprobs import draw, log_normalizer, logits_gradient_, target_logprobs
from motet.engine.ops.native import library

WAYS = [True, False] if library() is not None else [False]


def column(n: int, value: float) -> torch.Tensor:
    return torch.full((n,), value)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("vocabulary", [1, 17, 320, 5003])
def test_normalizer_and_gradient(native, vocabulary) -> None:
    torch.manual_seed(0)
    logits = (torch.randn(6, vocabulary) * 5).requires_grad_()
    targets, grad = torch.randint(0, vocabulary, (6, 3)), torch.randn(6, 3)
    targets[0, 1] = targets[0, 0]  # twice in a row
    want = torch.log_softmax(logits.double(), 1).gather(1, targets)
    want.backward(grad.double())
    torch.testing.assert_close(target_logprobs(logits.detach(), targets).double(), want.detach(), rtol=1e-6, atol=2e-6)
    log_z = log_normalizer(logits.detach(), native)
    got = logits_gradient_(logits.detach().clone(), log_z, targets, grad, native)
    torch.testing.assert_close(got, logits.grad, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("native", WAYS)
def test_greedy_takes_the_first_of_the_likeliest(native) -> None:
    logits = torch.randn(4, 100)
    logits[2, [7, 50]] = 9.0
    tokens, logprobs = draw(logits, column(4, 0), column(4, -1).long(), column(4, 1), torch.rand(4), native)
    assert tokens.tolist() == logits.argmax(1).tolist() and tokens[2] == 7
    torch.testing.assert_close(logprobs, torch.log_softmax(logits, 1).amax(1))


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1, -1, 1), (0.7, -1, 1), (1, 5, 1), (1, -1, 0.6), (1.5, 9, 0.8)]
)
def test_drawn_tokens_follow_the_distribution(native, temperature, top_k, top_p) -> None:
    torch.manual_seed(2)
    vocabulary, n = 40, 2000
    row = torch.randn(vocabulary) * 2
    logits, uniform = row.expand(n, -1), (torch.arange(n) + 0.5) / n
    args = (column(n, temperature), column(n, top_k).long(), column(n, top_p), uniform)
    tokens, logprobs = draw(logits, *args, native)
    p = torch.softmax(row / temperature, 0)
    order = p.argsort(descending=True)
    kept = order[: top_k if top_k > 0 else vocabulary]
    within = p[kept] / p[kept].sum()
    kept = kept[within.cumsum(0) - within < top_p]
    want = torch.zeros(vocabulary).index_put((kept,), p[kept] / p[kept].sum())
    counts = torch.bincount(tokens, minlength=vocabulary) / n
    assert (counts - want).abs().max() <= 1.5 / n  # the uniform numbers are evenly spaced
    torch.testing.assert_close(logprobs, torch.log(p)[tokens])


@pytest.mark.skipif(library() is None, reason="the kernels are not here")
def test_every_row_draws_as_if_alone_and_both_ways_draw_alike() -> None:
    torch.manual_seed(4)
    n = 30
    logits, uniform = torch.randn(n, 5003) * 3, torch.rand(n)
    temperature = torch.rand(n) * (torch.arange(n) % 4 > 0)
    top_k, top_p = torch.randint(-1, 30, (n,)), torch.where(torch.rand(n) < 0.5, 1.0, torch.rand(n))
    together = draw(logits, temperature, top_k, top_p, uniform)
    for i in range(n):
        rows = slice(i, i + 1)
        alone = draw(logits[rows], temperature[rows], top_k[rows], top_p[rows], uniform[rows])
        assert torch.equal(alone.tokens[0], together.tokens[i]) and torch.equal(alone.logprobs[0], together.logprobs[i])
        assert torch.equal(log_normalizer(logits[rows])[0], log_normalizer(logits)[i])
    plain = draw(logits, temperature, top_k, top_p, uniform, native=False)
    assert torch.equal(plain.tokens, together.tokens)
    torch.testing.assert_close(plain.logprobs, together.logprobs, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(library() is None, reason="the kernels are not here")
def test_what_was_drawn_untempered_has_the_trainers_logprob() -> None:
    logits = torch.randn(20, 5003) * 4
    tokens, logprobs = draw(logits, column(20, 1), column(20, -1).long(), column(20, 1), torch.rand(20))
    assert torch.equal(logprobs, target_logprobs(logits, tokens))
