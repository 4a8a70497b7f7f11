"""OpenAI's API: chat, plain completions, models."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from fastapi import APIRouter

from motet.chat.template import Chat
from motet.engine.types import IntArray, SampleResult
from motet.service.http.deps import Svc, Tenant, Watched
from motet.service.http.openai.admitting import admitted, count
from motet.service.http.openai.asking import Question, chat_prompt, conversation_of, text_prompt
from motet.service.http.openai.names import resolve
from motet.service.http.openai.recording import Watch, record
from motet.service.http.openai.streaming import Events, Live, events
from motet.service.http.openai.telling import Answer
from motet.service.http.service import Service
from motet.service.wire import openai as wire

Told = dict[str, Any] | Events
Body = wire.ChatCompletion | wire.TextCompletion
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
async def chat_completion(body: wire.ChatCompletion, service: Svc, tenant: Tenant, watched: Watched) -> Told:
    """Answer a conversation."""
    return await _answer(service, tenant, body, lambda chat: chat_prompt(chat, body), Watch(watched.meters.answered))


@router.post("/completions", response_model=None)
async def text_completion(body: wire.TextCompletion, service: Svc, tenant: Tenant, watched: Watched) -> Told:
    """Go on with a text."""
    return await _answer(service, tenant, body, lambda chat: text_prompt(chat, body), Watch(watched.meters.answered))


async def _answer(service: Service, tenant: str, body: Body, encode: Callable[[Chat], IntArray], watch: Watch) -> Told:
    info = service.engine.info
    prompt = await service.language.prompt(body.characters, info.context, encode)
    tokenizer = (await service.language.chat()).tokenizer
    named = await resolve(service, tenant, body.model, conversation_of(body))
    question = Question(body, named, tokenizer, prompt, info.end_tokens)
    answer = Answer(question)
    with ExitStack() as leaving:
        leaving.enter_context(admitted(service, tenant, question))
        if question.body.stream:
            live = Live(service.engine, question.sample(tenant))
            leaving.callback(live.done.cancel)
            await live.begun()  # so that a mistake is told by its status
            return Events(events(service, tenant, answer, watch, live), leaving.pop_all())
        result: SampleResult = await service.engine.call(question.sample(tenant))
    count(service, tenant, question, result)
    told = answer.whole(result)
    record(service, tenant, answer, result, watch, told)
    return told


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "motet"}
