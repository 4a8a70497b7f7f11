"""asample on the wire against the SDK's own classes and converters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tinker import types
from tinker.proto.response_conv import deserialize_sample_response

from motet.engine.core.requests import Sample
from motet.engine.types import SampledSequence, SampleResult, SamplingParams, TopLogprobs
from motet.errors import BadRequest
from motet.service.wire import protobuf as pb
from motet.service.wire import schemas
from motet.service.wire.sampling import encode_sample_result, read_sample


def read(params: dict[str, Any] | None = None, **fields: Any) -> Sample:
    """Through the SDK's request, its JSON, and our schema."""
    given = {"sampling_session_id": "s", "seq_id": 2**40, "prompt": types.ModelInput.from_ints([3, 4, 5]), **fields}
    request = types.SampleRequest(sampling_params=types.SamplingParams(**(params or {})), **given)
    body = schemas.Sample.model_validate(request.model_dump(exclude_none=True, mode="json"))
    return read_sample(body, "v")


def test_a_request_arrives_as_it_was_sent() -> None:
    got = read(
        {"max_tokens": 9, "temperature": 0.5, "top_k": 3, "top_p": 0.9, "seed": 7, "stop": ["a", "b"]},
        num_samples=4,
        prompt_logprobs=True,
        topk_prompt_logprobs=2,
        topk_sample_logprobs=1,
    )
    assert got.params == SamplingParams(9, 0.5, 3, 0.9, 7, (), ("a", "b"))
    assert (got.version, got.num_samples, got.prompt_logprobs) == ("v", 4, True)
    assert (got.top_prompt_logprobs, got.top_sample_logprobs) == (2, 1)
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
        ({"prompt_alt_tokens_k": 2}, "prompt_alt_tokens_k is not available"),
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
    scores = np.array([np.nan, -0.25, -0.75], np.float32)
    return SampleResult([first, second], 5, scores, prompt_top, prompt_cache_hit_tokens=2)


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
    assert pb.SampleResponse.FromString(body).motet_version_number == 5


def test_only_the_last_n_are_scored() -> None:
    answer = deserialize_sample_response(encode_sample_result(result(), 1))
    assert answer.prompt_logprobs == [None, None, -0.75]
    assert answer.topk_prompt_logprobs == [None, None, [(3, -3.0), (4, -4.0)]]
    plain = SampleResult([], 0)
    assert deserialize_sample_response(encode_sample_result(plain, None)).prompt_logprobs is None
