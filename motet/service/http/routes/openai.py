"""OpenAI's API: chat, plain completions, models."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from motet.engine.types import SampleResult
from motet.service.http.deps import Svc, Tenant, Watched
from motet.service.http.openai.admitting import admitted, count
from motet.service.http.openai.asking import Question, chat_prompt, conversation_of, text_prompt
from motet.service.http.openai.names import resolve
from motet.service.http.openai.recording import Watch, record
from motet.service.http.openai.streaming import stream
from motet.service.http.openai.telling import Answer
from motet.service.http.service import Service
from motet.service.wire import openai as wire

EVENTS = "text/event-stream"
Told = dict[str, Any] | StreamingResponse
router = APIRouter()


@router.get("/models")
async def list_models(service: Svc, tenant: Tenant) -> dict[str, Any]:
    """What `model` may name: the base model, and the caller's names in service."""
    names = [service.engine.info.name, *(name.name for name in service.names.of(tenant))]
    return {"object": "list", "data": [_model(name) for name in names]}


@router.get("/models/{name}")
async def show_model(name: str, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """One of them."""
    return _model((await resolve(service, tenant, name)).label)


@router.post("/chat/completions", response_model=None)
async def chat_completion(
    body: wire.ChatCompletion, service: Svc, tenant: Tenant, watched: Watched
) -> dict[str, Any] | StreamingResponse:
    """Answer a conversation."""
    chat = await service.language.chat()
    named = await resolve(service, tenant, body.model, conversation_of(body))
    question = Question(body, named, chat.tokenizer, chat_prompt(chat, body), service.engine.info.end_tokens)
    return await _answer(service, tenant, question, Watch(watched.meters.answered))


@router.post("/completions", response_model=None)
async def text_completion(
    body: wire.TextCompletion, service: Svc, tenant: Tenant, watched: Watched
) -> dict[str, Any] | StreamingResponse:
    """Go on with a text."""
    chat = await service.language.chat()
    named = await resolve(service, tenant, body.model, conversation_of(body))
    question = Question(body, named, chat.tokenizer, text_prompt(chat, body), service.engine.info.end_tokens)
    return await _answer(service, tenant, question, Watch(watched.meters.answered))


async def _answer(service: Service, tenant: str, question: Question, watch: Watch) -> Told:
    answer = Answer(question)
    with ExitStack() as leaving:
        leaving.enter_context(admitted(service, tenant, question))
        if question.body.stream:
            return StreamingResponse(stream(service, tenant, answer, watch, leaving.pop_all()), media_type=EVENTS)
        result: SampleResult = await service.engine.call(question.sample(tenant))
    count(service, tenant, question, result)
    told = answer.whole(result)
    record(service, tenant, answer, result, watch, told)
    return told


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "motet"}
