"""Sampling requests that are wrong: each is told what is wrong with it."""

from __future__ import annotations

import numpy as np
import pytest

from motet.engine.sampler.orders import check_prompt
from motet.engine.types import SamplingParams
from motet.errors import BadRequest

PROMPT = np.array([1, 2, 3])


@pytest.mark.parametrize(
    "params",
    [SamplingParams(), SamplingParams(max_tokens=9, temperature=0.0, top_k=1, top_p=0.1, stop_strings=("]", "é"))],
)
def test_a_good_request_passes(params: SamplingParams) -> None:
    check_prompt(PROMPT, params, 1, vocabulary=10, context=20)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        (SamplingParams(max_tokens=0), "max_tokens is 0"),
        (SamplingParams(max_tokens=21), "the context holds 20"),
        (SamplingParams(temperature=-1.0), "temperature is -1"),
        (SamplingParams(temperature=1e-40), "0 .greedy. or at least 1e-06"),
        (SamplingParams(temperature=float("nan")), "temperature is nan"),
        (SamplingParams(top_p=0.0), "top_p is 0"),
        (SamplingParams(top_k=0), "top_k is 0"),
        (SamplingParams(stop_tokens=(10,)), "a stop token is outside the vocabulary, which is 0 to 9"),
        (SamplingParams(stop_strings=("",)), "a stop string is empty"),
        (SamplingParams(stop_strings=("\ud800",)), "whole characters"),
    ],
)
def test_settings_that_are_wrong_are_told(params: SamplingParams, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        check_prompt(PROMPT, params, 1, vocabulary=10, context=20)


@pytest.mark.parametrize(
    ("prompt", "samples", "told"),
    [
        ([], 1, "the prompt is empty"),
        ([1, 10], 1, "has the token 10"),
        ([-1, 11], 1, "has the token -1"),
        ([1] * 20, 1, "has 20 tokens and the context holds 20"),
        ([1], 0, "num_samples is 0"),
        ([1], 1025, "choose 1 to 1024"),
    ],
)
def test_prompts_that_are_wrong_are_told(prompt: list[int], samples: int, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        check_prompt(np.asarray(prompt, np.int64), SamplingParams(), samples, vocabulary=10, context=20)
