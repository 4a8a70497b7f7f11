"""From samples to OpenAI's answers, whole or in pieces."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from motet.chat.calls import read_calls
from motet.engine.types import SampledSequence, SamplePart, SampleResult, TopLogprobs
from motet.service.http.openai.asking import Question
from motet.service.http.openai.language import Words

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Finish = Literal["stop", "length", "tool_calls"]
CALLED = "<tool_call>"
MAY_CALL = ("<", "{", "[")  # how a call begins, in every form


@dataclass(frozen=True)
class Answer:
    """The frame of an answer: what every piece of it repeats."""

    question: Question
    id: str = field(default_factory=lambda: uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def whole_id(self) -> str:
        """As clients know it."""
        return f"{'chatcmpl' if self.question.is_chat else 'cmpl'}-{self.id}"

    def frame(self, choices: list[dict[str, Any]], chunk: bool = False) -> dict[str, Any]:
        kind = "chat.completion" if self.question.is_chat else "text_completion"
        return {
            "id": self.whole_id,
            "object": f"{kind}.chunk" if chunk and self.question.is_chat else kind,
            "created": self.created,
            "model": self.question.named.label,
            "choices": choices,
        }

    def whole(self, result: SampleResult) -> dict[str, Any]:
        """The answer at once."""
        choices = [self._choice(index, one) for index, one in enumerate(result.sequences)]
        return {**self.frame(choices), "usage": usage(self.question, result)}

    def _choice(self, index: int, one: SampledSequence) -> dict[str, Any]:
        question = self.question
        text = Words(question.tokenizer, question.body.stops, one.tokens.tolist()).text
        content, calls = split_calls(question, text, f"{self.id[:20]}{index}")
        finish = finish_reason(one.stop_reason, bool(calls))
        told = _logprobs(question, one)
        if not question.is_chat:
            return {"index": index, "text": text, "finish_reason": finish, "logprobs": told}
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if calls:
            message["tool_calls"] = calls
        return {"index": index, "message": message, "finish_reason": finish, "logprobs": told}


def usage(question: Question, result: SampleResult) -> dict[str, Any]:
    """Tokens, the end token of each answer included."""
    prompt, written = len(question.prompt), sum(len(one.tokens) for one in result.sequences)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": result.prompt_cache_hit_tokens},
    }


def split_calls(question: Question, text: str, mark: str) -> tuple[str | None, list[dict[str, Any]]]:
    """What was said, and the tools that were called; without tools in the request a call is only words.

    `mark` begins the ids of the calls: an answer is told the same, however often.
    """
    if not question.tools:
        return text, []
    calls = [
        {
            "id": f"call_{mark}_{place}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for place, call in enumerate(read_calls(text))
    ]
    if not calls and CALLED not in text:
        return text, calls
    said = text.partition(CALLED)[0].rstrip() if CALLED in text else before_calls(text)
    return said or (None if calls else ""), calls


def before_calls(text: str) -> str:
    """What is said for certain, whatever follows: all before what may begin a call."""
    return text[: min((at for mark in MAY_CALL if (at := text.find(mark)) >= 0), default=len(text))].rstrip()


def finish_reason(reason: str, called: bool) -> Finish:
    return "length" if reason == "length" else "tool_calls" if called else "stop"


def _logprobs(question: Question, one: SampledSequence) -> dict[str, Any] | None:
    if not question.wants_logprobs:
        return None
    rows = [
        (int(token), float(logprob), None if one.top is None else _row(one.top, place))
        for place, (token, logprob) in enumerate(zip(one.tokens, one.logprobs, strict=True))
    ]
    return told_logprobs(question, [SamplePart(0, *row) for row in rows])


def _row(top: TopLogprobs, place: int) -> TopLogprobs:
    return TopLogprobs(top.tokens[place : place + 1], top.logprobs[place : place + 1])


def told_logprobs(question: Question, parts: list[SamplePart], begins: int = 0) -> dict[str, Any]:
    """Token by token, in the form of chat or of plain completions. begins: characters before, in the latter."""
    tokenizer = question.tokenizer
    told = [{**_token(tokenizer, one.token, one.logprob), "top_logprobs": _likeliest(tokenizer, one)} for one in parts]
    if question.is_chat:
        return {"content": told, "refusal": None}
    return {
        "tokens": [one["token"] for one in told],
        "token_logprobs": [one["logprob"] for one in told],
        "top_logprobs": [{two["token"]: two["logprob"] for two in one["top_logprobs"]} for one in told],
        "text_offset": list(itertools.accumulate((len(one["token"]) for one in told[:-1]), initial=begins)),
    }


def _likeliest(tokenizer: PreTrainedTokenizerBase, one: SamplePart) -> list[dict[str, Any]]:
    if one.top is None:
        return []
    pairs = zip(one.top.tokens[0].tolist(), one.top.logprobs[0].tolist(), strict=True)
    return [_token(tokenizer, token, logprob) for token, logprob in pairs]


def _token(tokenizer: PreTrainedTokenizerBase, token: int, logprob: float) -> dict[str, Any]:
    text = str(tokenizer.decode([token]))
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}
