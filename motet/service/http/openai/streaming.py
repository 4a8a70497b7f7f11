"""An answer in pieces: server-sent events, each token as the sampling lane draws it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from motet.engine.core.requests import Sample
from motet.engine.types import SamplePart, SampleResult
from motet.errors import MotetError
from motet.service.http.openai.admitting import count
from motet.service.http.openai.language import Words
from motet.service.http.openai.recording import Watch, record
from motet.service.http.openai.telling import Answer, before_calls, finish_reason, split_calls, told_logprobs, usage
from motet.service.http.service import EngineDoor, Service


class Said:
    """What a stream has said of a turn. Where there are tools, what may be a call is held back until it is known."""

    def __init__(self, tools: bool) -> None:
        self.characters = 0
        self._tools = tools
        self._text = ""

    def add(self, new: str) -> str:
        """What can be said of it now."""
        self._text += new
        certain = len(before_calls(self._text)) if self._tools else len(self._text)
        told = self._text[self.characters : certain]
        self.characters = max(self.characters, certain)
        return told


class Live:
    """A sample as it is drawn."""

    def __init__(self, engine: EngineDoor, sample: Sample) -> None:
        self.parts: asyncio.Queue[SamplePart | None] = asyncio.Queue()  # None: there are no more
        self._begun = asyncio.Event()
        self.done: asyncio.Future[SampleResult] = engine.submit(sample, self._take)
        self.done.add_done_callback(lambda _: self._take(None))

    async def begun(self) -> None:
        """Return with its first token. Raises why there will be none."""
        await self._begun.wait()
        if self.done.done():
            self.done.result()

    def _take(self, part: SamplePart | None) -> None:
        self.parts.put_nowait(part)
        self._begun.set()


class Events(StreamingResponse):
    """Server-sent events. What `leaving` holds is let go at their end, also where the client went before they began."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], leaving: ExitStack) -> None:
        super().__init__(events)
        self._leaving = leaving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._leaving:
            await super().__call__(scope, receive, send)


async def events(service: Service, tenant: str, answer: Answer, watch: Watch, live: Live) -> AsyncIterator[bytes]:
    """The events of an answer, which is counted and recorded once it is whole."""
    try:
        async for event in _frames(answer, live, watch):
            yield b"data: " + json.dumps(event).encode() + b"\n\n"
        count(service, tenant, answer.question, live.done.result())
        record(service, tenant, answer, live.done.result(), watch)
        yield b"data: [DONE]\n\n"
    except MotetError as error:
        told = {"error": {"message": str(error), "type": "server_error", "code": None, "param": None}}
        yield b"data: " + json.dumps(told).encode() + b"\n\n"


async def _frames(answer: Answer, live: Live, watch: Watch) -> AsyncIterator[dict[str, Any]]:
    question = answer.question
    words = [Words(question.tokenizer, question.body.stops) for _ in range(question.body.n)]
    said = [Said(bool(question.tools)) for _ in words]
    offsets = [0 for _ in words]  # characters of the tokens told so far
    if question.is_chat:
        yield answer.frame(
            [_choice(answer, index, {"role": "assistant", "content": ""}) for index in range(len(words))], True
        )
    while (part := await live.parts.get()) is not None:
        watch.token()
        new = said[part.index].add(words[part.index].add(part.token))
        if not (new or question.wants_logprobs):
            continue
        choice = _choice(answer, part.index, {"content": new})
        if question.wants_logprobs:
            choice["logprobs"] = told_logprobs(question, [part], offsets[part.index])
            offsets[part.index] += 0 if question.is_chat else len(choice["logprobs"]["tokens"][0])
        yield answer.frame([choice], True)
    result = await live.done
    for index, one in enumerate(result.sequences):
        for choice in _last(answer, index, words[index], said[index], one.stop_reason):
            yield answer.frame([choice], True)
    options = question.body.stream_options
    if options is not None and options.include_usage:
        yield {**answer.frame([], True), "usage": usage(question, result)}


def _last(answer: Answer, index: int, words: Words, said: Said, reason: str) -> list[dict[str, Any]]:
    """What was held back, the calls, and why it ended."""
    content, calls = split_calls(answer.question, words.text, f"{answer.id[:20]}{index}")
    rest = (content or "")[said.characters :] if answer.question.tools else words.rest()
    pieces = [_choice(answer, index, {"content": rest})] if rest else []
    if calls:
        numbered = [{"index": place, **call} for place, call in enumerate(calls)]
        pieces.append(_choice(answer, index, {"tool_calls": numbered}))
    ending = _choice(answer, index, {"content": ""} if not answer.question.is_chat else {})
    return [*pieces, {**ending, "finish_reason": finish_reason(reason, bool(calls))}]


def _choice(answer: Answer, index: int, delta: dict[str, Any]) -> dict[str, Any]:
    """A piece of one choice, in the form of chat or of plain completions."""
    if answer.question.is_chat:
        return {"index": index, "delta": delta, "finish_reason": None, "logprobs": None}
    return {"index": index, "text": delta.get("content", ""), "finish_reason": None, "logprobs": None}
