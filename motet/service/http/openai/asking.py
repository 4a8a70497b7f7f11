"""From an OpenAI request to the engine's: which version, which tokens, how to draw."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import TemplateError

from motet.chat.template import Chat
from motet.chat.template import Message as ChatMessage
from motet.engine.core.requests import Sample
from motet.engine.types import IntArray, SamplingParams
from motet.errors import BadRequest
from motet.service.http.openai.names import Named
from motet.service.wire import openai as wire

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ROLES = {"developer": "system"}


@dataclass(frozen=True, eq=False)
class Question:
    """One request, understood."""

    body: wire.ChatCompletion | wire.TextCompletion
    named: Named
    tokenizer: PreTrainedTokenizerBase
    prompt: IntArray
    end_tokens: tuple[int, ...]

    @property
    def is_chat(self) -> bool:
        return isinstance(self.body, wire.ChatCompletion)

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Those that the answer may call."""
        body = self.body
        return body.tools if isinstance(body, wire.ChatCompletion) and body.tool_choice != "none" else []

    @property
    def wants_logprobs(self) -> bool:
        return bool(self.body.logprobs) or (self.body.logprobs is not None and not self.is_chat)

    def sample(self, tenant: str) -> Sample:
        """As the engine takes it. A stop string does not switch the model's own end tokens off, as OpenAI has it."""
        body = self.body
        params = SamplingParams(
            max_tokens=body.most_tokens,
            temperature=body.temperature,
            top_p=body.top_p,
            seed=body.seed,
            stop_tokens=self.end_tokens,
            stop_strings=tuple(body.stops),
        )
        told = body.likeliest
        return Sample(
            self.named.version, self.prompt, params, body.n, share=tenant, top_sample_logprobs=told, serving=True
        )


def conversation_of(body: wire.ChatCompletion | wire.TextCompletion) -> str | None:
    """What a canary's share is decided by: `motet.conversation` of the metadata, else the user."""
    named = (body.metadata or {}).get("motet.conversation", body.user)
    return None if named is None else str(named)


def chat_prompt(chat: Chat, body: wire.ChatCompletion) -> IntArray:
    """The conversation in tokens. BadRequest: the tokenizer has no template, or the template refuses it."""
    if chat.tokenizer.chat_template is None:
        raise BadRequest("this base model has no chat template: use /v1/completions")
    tools = body.tools if body.tool_choice != "none" else []
    try:
        return np.asarray(chat.prompt([_message(one) for one in body.messages], tools))
    except (TemplateError, ValueError, TypeError, KeyError) as error:
        raise BadRequest(f"the chat template does not take this conversation: {error}") from None


def text_prompt(chat: Chat, body: wire.TextCompletion) -> IntArray:
    """A text, tokenized as the model is used to, or tokens as they are."""
    tokens = chat.tokenizer.encode(body.prompt) if isinstance(body.prompt, str) else body.prompt
    return np.asarray(tokens, np.int64)


def _message(one: wire.Message) -> ChatMessage:
    told: ChatMessage = {"role": ROLES.get(one.role, one.role), "content": one.text}
    if one.name is not None:
        told["name"] = one.name
    if one.tool_call_id is not None:
        told["tool_call_id"] = one.tool_call_id
    if one.tool_calls:
        told["tool_calls"] = [_call(call) for call in one.tool_calls]
    return told


def _call(call: wire.ToolCall) -> dict[str, Any]:
    """Templates take arguments as an object."""
    try:
        arguments = json.loads(call.function.arguments or "{}")
    except json.JSONDecodeError:
        raise BadRequest(f"the arguments of the call {call.id} are no JSON") from None
    return {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": arguments}}
