"""Every field of asample, and both ways to wait for it, through the SDK against a real server."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tinker import types

from tests.service.client import Client
from tests.service.conftest import Person, person

PROMPT = [int(token) for token in np.random.default_rng(1).integers(0, 250, 40)]
ONE = types.SamplingParams(max_tokens=1, seed=7)


@pytest.fixture(scope="module")
def sampler(ann: Person):  # type: ignore[no-untyped-def]
    return ann.service.create_sampling_client(base_model=ann.model)


def score(sampler, **asked: object) -> types.SampleResponse:  # type: ignore[no-untyped-def]
    found: types.SampleResponse = sampler.sample(types.ModelInput.from_ints(PROMPT), 1, ONE, **asked).result()
    return found


def test_a_prompt_scores_the_same_whichever_way_it_is_asked(sampler) -> None:  # type: ignore[no-untyped-def]
    """The prompt's own tokens, given tokens, the likeliest and drawn ones: one distribution, seen four ways."""
    own = score(sampler, include_prompt_logprobs=True).prompt_logprobs
    assert own is not None and own[0] is None
    given = torch.tensor(PROMPT[1:])[:, None]
    dense = score(sampler, target_prompt_logprobs=types.TensorData.from_torch(given)).target_prompt_logprobs
    assert dense is not None
    np.testing.assert_array_equal(dense.to_torch()[:, 0].numpy(), np.array(own[1:], np.float32))

    wide = torch.full((len(PROMPT) - 1, 50), -1)
    wide[30, 7], wide[38, 0] = PROMPT[31], PROMPT[39]
    asked = types.TensorData.from_torch_sparse(wide, pad_value=-1)
    sparse = score(sampler, target_prompt_logprobs=asked).target_prompt_logprobs
    assert sparse is not None and sparse.sparse_crow_indices is not None
    assert list(sparse.data) == [own[31], own[39]]

    top = score(sampler, topk_prompt_logprobs=256).topk_prompt_logprobs
    assert top is not None and top[0] is None
    told = [dict(likeliest).get(token) for likeliest, token in zip(top[1:], PROMPT[1:], strict=True) if likeliest]
    assert len(told) == 39 and sum(logprob is not None for logprob in told) > 20
    assert all(mine is None or mine == logprob for mine, logprob in zip(told, own[1:], strict=True))

    drawn = score(sampler, prompt_alt_tokens_k=5).prompt_alt_tokens
    assert drawn is not None
    tokens, logprobs = drawn.tokens.to_torch(), drawn.logprobs.to_torch()
    assert tokens.shape == logprobs.shape == (len(PROMPT) - 1, 5)
    likely = [dict(likeliest) for likeliest in top[1:] if likeliest]
    cells = [(place, cell) for place in range(39) for cell in range(5) if int(tokens[place, cell]) in likely[place]]
    assert len(cells) > 150
    assert all(likely[place][int(tokens[place, cell])] == float(logprobs[place, cell]) for place, cell in cells)
    again = score(sampler, prompt_alt_tokens_k=5).prompt_alt_tokens
    assert again is not None and torch.equal(again.tokens.to_torch(), tokens)


def test_only_the_last_are_scored(sampler) -> None:  # type: ignore[no-untyped-def]
    whole = score(sampler, include_prompt_logprobs=True, topk_prompt_logprobs=2)
    few = score(sampler, include_prompt_logprobs=True, topk_prompt_logprobs=2, prompt_logprobs_last_n=3)
    assert few.prompt_logprobs is not None and whole.prompt_logprobs is not None
    assert few.prompt_logprobs == [None] * 37 + whole.prompt_logprobs[-3:]
    assert few.topk_prompt_logprobs is not None and whole.topk_prompt_logprobs is not None
    assert few.topk_prompt_logprobs == [None] * 37 + whole.topk_prompt_logprobs[-3:]
    assert few.prompt_cache_hit_tokens > 0 == whole.prompt_cache_hit_tokens


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"target_prompt_logprobs": types.TensorData.from_torch(torch.ones(3, 1, dtype=torch.long))}, "39 rows"),
        ({"target_prompt_logprobs": types.TensorData.from_torch(torch.full((39, 1), 320))}, "vocabulary"),
        ({"target_prompt_logprobs": types.TensorData.from_torch(torch.full((39, 2), -1))}, "names no token"),
        ({"prompt_alt_tokens_k": 257}, "choose 0 to 256"),
        ({"topk_prompt_logprobs": -1}, "choose 0 to 256"),
        ({"include_prompt_logprobs": True, "prompt_logprobs_last_n": 40}, "1 to 39"),
    ],
)
def test_what_cannot_be_told_is_said(sampler, asked: dict[str, object], told: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Exception, match=told):
        score(sampler, **asked)


def test_batch_polls_bring_every_result(sdk_address: str, ann: Person) -> None:
    """The SDK's flag turned on: one poll for all samples of a client; failures come through too."""
    mine = person(sdk_address, ann.key)
    holder = mine.service.holder
    flags = {"sample_use_retrieve_futures": True, "sample_join_sampling_session": True}
    holder._client_config = holder.get_client_config().model_copy(update=flags)
    sampler = mine.service.create_sampling_client(base_model=mine.model)
    params = types.SamplingParams(max_tokens=3, seed=2, stop=[])
    futures = [sampler.sample(types.ModelInput.from_ints([5, 6, n]), 2, params) for n in range(24)]
    wrong = sampler.sample(types.ModelInput.from_ints([5, 10**6]), 1, params)
    answers = [future.result() for future in futures]
    assert [len(one.tokens) for answer in answers for one in answer.sequences] == [3] * 48
    with pytest.raises(Exception, match="the token 1000000"):
        wrong.result()
    plain = ann.service.create_sampling_client(base_model=mine.model)
    expected = plain.sample(types.ModelInput.from_ints([5, 6, 3]), 2, params).result()
    assert [one.tokens for one in answers[3].sequences] == [one.tokens for one in expected.sequences]
    mine.service.close("success").result()


def test_polls_of_a_sampler_are_its_owners(sdk_address: str) -> None:
    one, other = Client(sdk_address, "tml-one"), Client(sdk_address, "tml-other")
    sampler = one.sampler()
    target = {"sampling_session_id": sampler, "cloned_sampler_id": 0}
    assert one.post("retrieve_futures", target=target, timeout=0) == {"completions": [], "cursor": 0}
    request = {"sampling_session_id": sampler, "sampling_params": {"max_tokens": 2}, "prompt": {"chunks": []}}
    prompt = {"chunks": [{"type": "encoded_text", "tokens": [4, 5]}]}
    numbers = {name: one.post("join_sampling_session", sampling_session_id=sampler)["client_counter"] for name in "ab"}
    assert 0 < numbers["a"] != numbers["b"] > 0
    mine = one.post("asample", **request, seq_id=3)
    clones = one.post("asample", **{**request, "prompt": prompt}, seq_id=numbers["a"] * 10**9 + 3)
    told = one.post("retrieve_futures", target=target)
    assert told["completions"] == [{"state": "failed", "request_id": mine["request_id"]}]
    assert one.post("retrieve_futures", target=target, prev_cursor=0, timeout=0) == told
    seen = one.post("retrieve_futures", target=target, prev_cursor=told["cursor"], timeout=0)
    assert seen == {"completions": [], "cursor": told["cursor"]}
    (ended,) = one.post("retrieve_futures", target={**target, "cloned_sampler_id": numbers["a"]})["completions"]
    assert (ended["state"], ended["request_id"]) == ("finished", clones["request_id"])
    assert ended["response_payload_uncompressed_size"] == len(one.read(clones).content)
    for route, body in (("retrieve_futures", {"target": target}), ("join_sampling_session", target)):
        assert other.send(route, **body).status_code == 404
        assert one.send(route).status_code == 422
