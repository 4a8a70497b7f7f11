"""An answer as it is recorded: who asked for what, which version wrote which tokens, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from motet.engine.types import SampledSequence, SampleResult
from motet.service.feedback.answers import Given
from motet.service.http.openai.asking import Question, conversation_of
from motet.service.http.openai.telling import Answer
from motet.service.http.service import Service


@dataclass(eq=False)
class Watch:
    """How long an answer takes, from the moment that its request was understood. `told` hears of it at the end."""

    told: Callable[[float, float | None], None]
    began: float = field(default_factory=time.monotonic)
    first_token: float | None = None  # seconds, of a stream

    def token(self) -> None:
        """One more has come."""
        if self.first_token is None:
            self.first_token = self.seconds

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


def record(
    service: Service,
    tenant: str,
    answer: Answer,
    result: SampleResult,
    watch: Watch,
    told: dict[str, Any] | None = None,
) -> None:
    """An answer is whole: have it recorded, where its request and its tenant would. told: the answer, where known."""
    watch.told(watch.seconds, watch.first_token)
    question, named = answer.question, answer.question.named
    if question.body.store is False or not service.records.wanted(tenant):
        return
    choices = (told or answer.whole(result))["choices"]
    service.records.record(
        Given(
            tenant,
            answer.whole_id,
            "chat" if question.is_chat else "text",
            named.label,
            lambda: _content(question, choices, result),
            name=named.name,
            version=named.number,
            path=named.path,
            canary=named.canary,
            user=question.body.user,
            conversation=conversation_of(question.body),
            seconds=watch.seconds,
            first_token_seconds=watch.first_token,
        )
    )


def _content(question: Question, choices: list[dict[str, Any]], result: SampleResult) -> dict[str, Any]:
    return {
        "request": question.body.model_dump(mode="json", exclude_unset=True),
        "prompt_tokens": question.prompt.tolist(),
        "choices": [_choice(choice, one) for choice, one in zip(choices, result.sequences, strict=True)],
    }


def _choice(choice: dict[str, Any], one: SampledSequence) -> dict[str, Any]:
    message = choice.get("message", {})
    return {
        "index": choice["index"],
        "text": choice.get("text", message.get("content")),
        "tool_calls": message.get("tool_calls", []),
        "finish_reason": choice["finish_reason"],
        "tokens": one.tokens.tolist(),
        "logprobs": one.logprobs.tolist(),
    }
