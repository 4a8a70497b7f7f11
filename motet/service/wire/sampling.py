"""asample on the wire: a JSON request in, a protobuf answer out."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from motet.engine.core.requests import Sample
from motet.engine.types import IntArray, SampledSequence, SampleResult, SamplingParams, TopLogprobs
from motet.errors import BadRequest
from motet.service.wire import protobuf as pb
from motet.service.wire import schemas
from motet.service.wire.tensors import encode_top

MAX_TOP = 256
NOT_YET = {
    "target_prompt_logprobs": "ask for topk_prompt_logprobs, or score the tokens with forward(cross_entropy)",
    "prompt_alt_tokens_k": "ask for topk_prompt_logprobs",
}


def read_sample(body: schemas.Sample, version: str | None) -> Sample:
    """The engine's request, for a version (None: the base model). BadRequest says what is wrong."""
    for field, instead in NOT_YET.items():
        if getattr(body, field):
            raise BadRequest(f"{field} is not available here yet: {instead}")
    for field in ("topk_prompt_logprobs", "topk_sample_logprobs"):
        if not 0 <= getattr(body, field) <= MAX_TOP:
            raise BadRequest(f"{field} is {getattr(body, field)}: choose 0 to {MAX_TOP}")
    prompt = read_prompt(body.prompt)
    last = body.prompt_logprobs_last_n
    if last is not None and not 1 <= last <= max(len(prompt) - 1, 1):
        raise BadRequest(f"prompt_logprobs_last_n is {last}: it must be 1 to {len(prompt) - 1}, the prompt less one")
    return Sample(
        version,
        prompt,
        _read_params(body.sampling_params),
        num_samples=body.num_samples,
        prompt_logprobs=bool(body.prompt_logprobs),
        top_prompt_logprobs=body.topk_prompt_logprobs,
        top_sample_logprobs=body.topk_sample_logprobs,
    )


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


def encode_sample_result(result: SampleResult, last_n: int | None) -> bytes:
    """A SampleResponse; with `last_n`, prompt log-probabilities before the last n are left out."""
    message = pb.SampleResponse(
        sequences=[_encode_sequence(sequence) for sequence in result.sequences],
        prompt_cache_hit_tokens=result.prompt_cache_hit_tokens,
        motet_version_number=result.version_number,
    )
    if result.prompt_logprobs is not None:
        logprobs = np.array(result.prompt_logprobs, "<f4")
        logprobs[: len(logprobs) - (last_n or len(logprobs))] = np.nan
        message.prompt_logprobs = logprobs.tobytes()
    if result.prompt_top is not None:
        encode_top(_last_rows(result.prompt_top, last_n), message.topk_prompt_logprobs)
    return cast(bytes, message.SerializeToString())


def _last_rows(top: TopLogprobs, last_n: int | None) -> TopLogprobs:
    if last_n is None:
        return top
    emptied = np.arange(len(top.tokens)) < len(top.tokens) - last_n
    return TopLogprobs(
        np.where(emptied[:, None], 0, top.tokens), np.where(emptied[:, None], np.float32(-99999.0), top.logprobs)
    )


def _encode_sequence(sequence: SampledSequence) -> Any:
    message = pb.SampledSequence(
        stop_reason=pb.STOP_REASONS[sequence.stop_reason],
        tokens=np.ascontiguousarray(sequence.tokens, "<i4").tobytes(),
        logprobs=np.ascontiguousarray(sequence.logprobs, "<f4").tobytes(),
    )
    if sequence.top is not None:
        encode_top(sequence.top, message.topk_sampled_logprobs)
    return message
