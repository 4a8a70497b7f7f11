"""asample on the wire against the SDK's own classes and converters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tinker import types
from tinker.lib.public_interfaces.sampling_client import _tensor_data_to_model
from tinker.proto.response_conv import deserialize_sample_response

from motet.engine.core.requests import Sample
from motet.engine.types import PromptQuery, PromptScores, SampledSequence, SampleResult, SamplingParams, TopLogprobs
from motet.errors import BadRequest
from motet.service.wire import protobuf as pb
from motet.service.wire import schemas
from motet.service.wire.sampling import encode_sample_result, read_sample


def json_of(params: dict[str, Any] | None = None, **fields: Any) -> schemas.Sample:
    """Through the SDK's request, its JSON, and our schema."""
    given = {"sampling_session_id": "s", "seq_id": 2**40, "prompt": types.ModelInput.from_ints([3, 4, 5]), **fields}
    request = types.SampleRequest(sampling_params=types.SamplingParams(**(params or {})), **given)
    return schemas.Sample.model_validate(request.model_dump(exclude_none=True, mode="json"))


def read(params: dict[str, Any] | None = None, **fields: Any) -> Sample:
    return read_sample(json_of(params, **fields), "v")


def test_a_request_arrives_as_it_was_sent() -> None:
    got = read(
        {"max_tokens": 9, "temperature": 0.5, "top_k": 3, "top_p": 0.9, "seed": 7, "stop": ["a", "b"]},
        num_samples=4,
        prompt_logprobs=True,
        topk_prompt_logprobs=2,
        topk_sample_logprobs=1,
        prompt_logprobs_last_n=1,
        prompt_alt_tokens_k=8,
    )
    assert got.params == SamplingParams(9, 0.5, 3, 0.9, 7, (), ("a", "b"))
    assert (got.version, got.num_samples, got.top_sample_logprobs) == ("v", 4, 1)
    assert got.query == PromptQuery(logprobs=True, top=2, last=1, draws=8)
    np.testing.assert_array_equal(got.prompt, [3, 4, 5])


@pytest.mark.parametrize(
    ("stop", "tokens", "strings"),
    [(None, None, ()), ([], (), ()), ("x", (), ("x",)), ([1, 2], (1, 2), ()), ([""], (), ("",))],
)
def test_stops(stop: Any, tokens: Any, strings: Any) -> None:
    params = read({"stop": stop}).params
    assert (params.stop_tokens, params.stop_strings) == (tokens, strings)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"prompt": types.ModelInput.from_ints([1, 2**40])}, "32 bits"),
        ({"prompt_alt_tokens_k": 10**9}, "prompt_alt_tokens_k"),
        ({"record_stability_info": True}, "use importance_sampling, ppo or cispo"),
        ({"prompt_logprobs": True, "prompt_logprobs_last_n": 3}, "1 to 2"),
        ({"prompt_logprobs": True, "prompt_logprobs_last_n": 0}, "1 to 2"),
        ({"topk_prompt_logprobs": 10**9}, "topk_prompt_logprobs"),
        ({"topk_sample_logprobs": -1}, "topk_sample_logprobs"),
    ],
)
def test_what_does_not_fit_is_named(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        read(**fields)


def test_other_chunks_and_lost_numbers_are_refused() -> None:
    image = {"type": "image", "data": "", "format": "png"}
    body = {"sampling_session_id": "s", "seq_id": 0, "sampling_params": {}, "prompt": {"chunks": [image]}}
    with pytest.raises(BadRequest, match="'image'"):
        read_sample(schemas.Sample.model_validate(body), None)
    text = {"chunks": [{"type": "encoded_text", "tokens": [1]}]}
    nan = {**body, "prompt": text, "sampling_params": {"temperature": None}}  # NaN arrives as null
    with pytest.raises(BadRequest, match="temperature must be a number"):
        read_sample(schemas.Sample.model_validate(nan), None)


def result() -> SampleResult:
    top = TopLogprobs(np.array([[1, 2], [3, 4]], np.int32), np.array([[-1, -2], [-3, -4]], np.float32))
    blank = np.full((1, 2), -99999.0, np.float32)
    prompt_top = TopLogprobs(
        np.concatenate([np.zeros((1, 2), np.int32), top.tokens]), np.concatenate([blank, top.logprobs])
    )
    first = SampledSequence(np.array([7, 8], np.int32), np.array([-0.5, -1], np.float32), "stop", top)
    second = SampledSequence(np.array([9], np.int32), np.array([-2], np.float32), "length")
    scores = PromptScores(np.array([np.nan, -0.25, -0.75], np.float32), prompt_top, drawn=top)
    return SampleResult([first, second], 5, scores, prompt_cache_hit_tokens=2)


def test_an_answer_reads_back_in_the_sdk() -> None:
    body = encode_sample_result(result(), None)
    answer = deserialize_sample_response(body)
    first, second = answer.sequences
    assert (first.tokens, first.stop_reason, second.tokens, second.stop_reason) == ([7, 8], "stop", [9], "length")
    assert first.logprobs == [-0.5, -1.0]
    assert first.topk_logprobs == [[(1, -1.0), (2, -2.0)], [(3, -3.0), (4, -4.0)]]
    assert second.topk_logprobs is None
    assert answer.prompt_logprobs == [None, -0.25, -0.75]
    assert answer.topk_prompt_logprobs == [None, [(1, -1.0), (2, -2.0)], [(3, -3.0), (4, -4.0)]]
    assert answer.prompt_cache_hit_tokens == 2
    assert answer.prompt_alt_tokens is not None and answer.target_prompt_logprobs is None
    assert answer.prompt_alt_tokens.tokens.tolist() == [[1, 2], [3, 4]]
    assert answer.prompt_alt_tokens.logprobs.tolist() == [[-1.0, -2.0], [-3.0, -4.0]]
    assert pb.SampleResponse.FromString(body).motet_version_number == 5
    plain = deserialize_sample_response(encode_sample_result(SampleResult([], 0), None))
    assert plain.prompt_logprobs is None and plain.topk_prompt_logprobs is None and plain.prompt_alt_tokens is None


@pytest.mark.parametrize("sparse", [False, True])
def test_given_tokens_travel_in_the_layout_they_were_asked_in(sparse: bool) -> None:
    wide = torch.full((2, 40), -1)
    wide[0, 3], wide[1, 0], wide[1, 39] = 11, 12, 0
    tensor = types.TensorData.from_torch_sparse(wide, pad_value=-1) if sparse else types.TensorData.from_torch(wide)
    assert (tensor.sparse_crow_indices is not None) == sparse
    body = json_of(target_prompt_logprobs=_tensor_data_to_model(tensor))
    given = read_sample(body, None).query.given
    assert given is not None
    assert (given.places.tolist(), given.tokens.tolist()) == ([1, 2, 2], [11, 12, 0])
    scores = PromptScores(given=np.array([-1, -2, -3], np.float32))
    answer = deserialize_sample_response(encode_sample_result(SampleResult([], 0, scores), body.target_prompt_logprobs))
    assert answer.target_prompt_logprobs is not None
    expected = torch.zeros(2, 40)
    expected[0, 3], expected[1, 0], expected[1, 39] = -1, -2, -3
    assert torch.equal(answer.target_prompt_logprobs.to_torch(), expected)
    assert (answer.target_prompt_logprobs.sparse_crow_indices is not None) == sparse


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"shape": [3, 1]}, "2 rows"),
        ({"shape": [2]}, "2 rows"),
        ({"shape": [2, 2]}, "its shape says"),
        ({"shape": [2, 2**60]}, "its shape says"),
        ({"shape": None}, "2 rows"),
        ({"dtype": "float32"}, "float32"),
        ({"data": [-1, -1]}, "names no token"),
        ({"data": [1, 2**70]}, "64 bits"),
        ({"sparse_crow_indices": [0, 1]}, "crow_indices"),
        ({"sparse_crow_indices": [0, 2**40, 2], "sparse_col_indices": [0, 0]}, "crow_indices"),
        ({"sparse_crow_indices": [0, 1, 2], "sparse_col_indices": [0, 1]}, "col_indices"),
        ({"sparse_crow_indices": [0, 1, 1], "sparse_col_indices": [0]}, "2 values"),
    ],
)
def test_tokens_that_cannot_be_scored_are_refused(changes: dict[str, Any], told: str) -> None:
    body = json_of().model_dump()
    body["target_prompt_logprobs"] = {"data": [4, 5], "dtype": "int64", "shape": [2, 1], **changes}
    with pytest.raises(BadRequest, match=told):
        read_sample(schemas.Sample.model_validate(body), None)
