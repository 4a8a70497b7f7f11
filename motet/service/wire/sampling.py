"""asample on the wire: a JSON request in, a protobuf answer out."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from motet.engine.core.requests import Sample
from motet.engine.types import IntArray, PromptQuery, SampledSequence, SampleResult, SamplingParams
from motet.errors import BadRequest
from motet.service.wire import protobuf as pb
from motet.service.wire import schemas
from motet.service.wire.targets import encode_targets, read_targets
from motet.service.wire.tensors import encode_dense, encode_top
from motet.service.wire.training import STABLE_REINFORCE

MAX_TOP = 256
TOPS = ("topk_prompt_logprobs", "topk_sample_logprobs", "prompt_alt_tokens_k")


def read_sample(body: schemas.Sample, version: str | None, share: str | None = None) -> Sample:
    """The engine's request, for a version (None: the base model); `share` pays where no run does. BadRequest."""
    for field in TOPS:
        if not 0 <= getattr(body, field) <= MAX_TOP:
            raise BadRequest(f"{field} is {getattr(body, field)}: choose 0 to {MAX_TOP}")
    if body.record_stability_info:
        raise BadRequest(f"record_stability_info is for the loss stable_reinforce, and {STABLE_REINFORCE}")
    prompt = read_prompt(body.prompt)
    return Sample(
        version,
        prompt,
        _read_params(body.sampling_params),
        num_samples=body.num_samples,
        query=_read_query(body, len(prompt)),
        top_sample_logprobs=body.topk_sample_logprobs,
        share=share,
    )


def _read_query(body: schemas.Sample, places: int) -> PromptQuery:
    last = body.prompt_logprobs_last_n
    if last is not None and not 1 <= last <= max(places - 1, 1):
        raise BadRequest(f"prompt_logprobs_last_n is {last}: it must be 1 to {places - 1}, the prompt less one")
    return PromptQuery(
        logprobs=bool(body.prompt_logprobs),
        top=body.topk_prompt_logprobs,
        last=last,
        given=None if body.target_prompt_logprobs is None else read_targets(body.target_prompt_logprobs, places),
        draws=body.prompt_alt_tokens_k,
    )


def count_tokens(body: schemas.Sample) -> int:
    """How many tokens the prompt brings."""
    return sum(len(chunk.tokens) for chunk in body.prompt.chunks)


def read_prompt(prompt: schemas.ModelInput) -> IntArray:
    """All tokens of a prompt, T int32."""
    kinds = {chunk.type for chunk in prompt.chunks} - {"encoded_text"}
    if kinds:
        raise BadRequest(f"the prompt has a chunk of type {min(kinds)!r}: this base model takes text tokens only")
    tokens = [token for chunk in prompt.chunks for token in chunk.tokens]
    try:
        return np.array(tokens, np.int32)
    except OverflowError:
        raise BadRequest("the prompt has a token that does not fit 32 bits; no vocabulary is that large") from None


def _read_params(params: schemas.SamplingParams) -> SamplingParams:
    stop = [params.stop] if isinstance(params.stop, str) else params.stop
    strings = tuple(item for item in stop or () if isinstance(item, str))
    tokens = tuple(item for item in stop or () if isinstance(item, int))
    return SamplingParams(
        max_tokens=params.max_tokens,
        temperature=_number("temperature", params.temperature),
        top_k=params.top_k,
        top_p=_number("top_p", params.top_p),
        seed=params.seed,
        stop_tokens=None if stop is None else tokens,
        stop_strings=strings,
    )


def _number(name: str, value: float | None) -> float:
    """NaN arrives as null."""
    if value is None:
        raise BadRequest(f"{name} must be a number")
    return value


def encode_sample_result(result: SampleResult, targets: schemas.TensorData | None) -> bytes:
    """A SampleResponse. `targets` is the request's own target_prompt_logprobs, whose layout the answer takes."""
    message = pb.SampleResponse(
        sequences=[_encode_sequence(sequence) for sequence in result.sequences],
        prompt_cache_hit_tokens=result.prompt_cache_hit_tokens,
        motet_version_number=result.version_number,
    )
    scores = result.prompt
    if scores.logprobs is not None:
        message.prompt_logprobs = np.ascontiguousarray(scores.logprobs, "<f4").tobytes()
    if scores.top is not None:
        encode_top(scores.top, message.topk_prompt_logprobs)
    if scores.given is not None and targets is not None:
        encode_targets(targets, scores.given, message.target_prompt_logprobs)
    if scores.drawn is not None:
        encode_dense(scores.drawn.tokens, pb.INT64, message.prompt_alt_tokens.tokens)
        encode_dense(scores.drawn.logprobs, pb.FLOAT32, message.prompt_alt_tokens.logprobs)
    return cast(bytes, message.SerializeToString())


def _encode_sequence(sequence: SampledSequence) -> Any:
    message = pb.SampledSequence(
        stop_reason=pb.STOP_REASONS[sequence.stop_reason],
        tokens=np.ascontiguousarray(sequence.tokens, "<i4").tobytes(),
        logprobs=np.ascontiguousarray(sequence.logprobs, "<f4").tobytes(),
    )
    if sequence.top is not None:
        encode_top(sequence.top, message.topk_sampled_logprobs)
    return message
