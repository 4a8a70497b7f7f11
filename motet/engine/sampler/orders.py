"""What a sampling request must hold, and from a finished group to its result."""

from __future__ import annotations

import math

from motet.engine.sampler.sequence import Group
from motet.engine.types import IntArray, PromptQuery, SampleResult, SamplingParams, as_float32
from motet.errors import BadRequest

MAX_SAMPLES = 1024
LEAST_TEMPERATURE = 1e-6  # below, logits overflow; 0 is greedy
MAX_TOLD = 1024  # likeliest or drawn tokens at a place
MAX_STOP_TOKENS = 4096
MAX_STOPS, MAX_STOP_LENGTH = 64, 1024  # each is looked for at every token of every sample


def check_prompt(prompt: IntArray, params: SamplingParams, num_samples: int, vocabulary: int, context: int) -> None:
    """BadRequest says what is wrong with the request and what would be right."""
    if prompt.ndim != 1 or prompt.dtype.kind not in "iu":
        raise BadRequest(f"the prompt is {prompt.dtype} of the shape {prompt.shape}: send one line of integers")
    if len(prompt) == 0:
        raise BadRequest("the prompt is empty: send at least one token")
    if (strange := _outside(prompt, vocabulary)) is not None:
        raise BadRequest(f"the prompt has the token {strange}: the vocabulary is 0 to {vocabulary - 1}")
    if len(prompt) >= context:
        raise BadRequest(f"the prompt has {len(prompt)} tokens and the context holds {context}: shorten it")
    if not 1 <= num_samples <= MAX_SAMPLES:
        raise BadRequest(f"num_samples is {num_samples}: choose 1 to {MAX_SAMPLES}")
    if params.max_tokens is not None and params.max_tokens < 1:
        raise BadRequest(f"max_tokens is {params.max_tokens}: choose at least 1, or leave it out")
    if params.max_tokens is not None and params.max_tokens > context:
        raise BadRequest(f"max_tokens is {params.max_tokens} and the context holds {context}: choose fewer, or none")
    if params.temperature != 0 and not LEAST_TEMPERATURE <= as_float32(params.temperature) < math.inf:
        raise BadRequest(f"temperature is {params.temperature}: choose 0 (greedy) or at least {LEAST_TEMPERATURE:g}")
    if not 0 < as_float32(params.top_p) <= 1:
        raise BadRequest(f"top_p is {params.top_p}: choose more than 0 and at most 1")
    if params.top_k < 1 and params.top_k != -1:
        raise BadRequest(f"top_k is {params.top_k}: choose at least 1, or -1 for off")
    _check_stops(params, vocabulary)


def _check_stops(params: SamplingParams, vocabulary: int) -> None:
    if len(params.stop_tokens or ()) > MAX_STOP_TOKENS:
        raise BadRequest(f"there are {len(params.stop_tokens or ())} stop tokens: {MAX_STOP_TOKENS} at most")
    longest = max(map(len, params.stop_strings), default=0)
    if len(params.stop_strings) > MAX_STOPS or longest > MAX_STOP_LENGTH:
        raise BadRequest(
            f"there are {len(params.stop_strings)} stop strings, the longest of {longest} characters: "
            f"{MAX_STOPS} of {MAX_STOP_LENGTH} at most"
        )
    if any(not 0 <= token < vocabulary for token in params.stop_tokens or ()):
        raise BadRequest(f"a stop token is outside the vocabulary, which is 0 to {vocabulary - 1}")
    if any(not stop for stop in params.stop_strings):
        raise BadRequest("a stop string is empty: leave it out")
    if any("\ud800" <= character <= "\udfff" for stop in params.stop_strings for character in stop):
        raise BadRequest("a stop string has half of a surrogate pair: send whole characters")


def _outside(tokens: IntArray, vocabulary: int) -> int | None:
    """One of the tokens (at least one) that the vocabulary does not have."""
    least, most = int(tokens.min()), int(tokens.max())
    return least if least < 0 else most if most >= vocabulary else None


def check_query(query: PromptQuery, places: int, vocabulary: int) -> None:
    """BadRequest says what of a prompt cannot be told."""
    check_told("likeliest", query.top)
    check_told("drawn", query.draws)
    if query.last is not None and not 1 <= query.last <= max(places - 1, 1):
        raise BadRequest(f"the last {query.last} tokens cannot be scored: choose 1 to {places - 1}")
    if query.given is None or len(query.given.tokens) == 0:
        return
    tokens, where = query.given.tokens, query.given.places
    if (strange := _outside(tokens, vocabulary)) is not None:
        raise BadRequest(f"the token {strange} cannot be scored: the vocabulary is 0 to {vocabulary - 1}")
    if int(where.min()) < 1 or int(where.max()) >= places:
        raise BadRequest(f"tokens can be scored at the places 1 to {places - 1} of this prompt")


def check_told(which: str, count: int) -> None:
    """BadRequest where so many tokens cannot be told at each place."""
    if not 0 <= count <= MAX_TOLD:
        raise BadRequest(f"{count} {which} tokens cannot be told at each place: choose 0 to {MAX_TOLD}")


def group_result(group: Group) -> SampleResult:
    """All samples of a finished group, in order of their index."""
    return SampleResult(
        sequences=[group.finished[index] for index in range(group.num_samples)],
        version_number=0 if group.version is None else group.version.number,
        prompt=group.report.result(),
        prompt_cache_hit_tokens=group.cache_hit,
    )
