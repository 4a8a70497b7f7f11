"""What an environment of `verifiers` asks for each turn. Imported only where the package is there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from verifiers.clients import Client
from verifiers.types import Response, ResponseMessage, ToolCall

from motet.chat.template import Message
from motet.errors import BadConfig
from motet.lab.envs.conversation import Said

MODEL = "policy"  # a name that the environment may log


@dataclass(frozen=True)
class Asked:
    """All that has been said so far, and the tools."""

    messages: list[Message]
    tools: list[Message]


class Mouth(Client):
    """There a client is called for an answer and waits; what it is asked for comes out here, and the answer goes in."""

    def __init__(self) -> None:
        super().__init__(None)
        self.asked: asyncio.Queue[Asked] = asyncio.Queue()
        self.said: asyncio.Queue[Said] = asyncio.Queue()
        self._turns = 0

    async def get_response(
        self, prompt: Sequence[Any], model: str, sampling_args: Any, tools: Sequence[Any] | None = None, **_: Any
    ) -> Response:
        """What the policy says to this. BadConfig: it cannot be put in a chat template."""
        self.asked.put_nowait(Asked([as_message(one) for one in prompt], [as_tool(tool) for tool in tools or ()]))
        said = await self.said.get()
        self._turns += 1
        calls = [
            ToolCall(id=f"call-{self._turns}-{place}", name=call.name, arguments=json.dumps(call.arguments))
            for place, call in enumerate(said.calls)
        ]
        message = ResponseMessage(
            content=said.text,
            tool_calls=calls or None,
            finish_reason="tool_calls" if calls else "stop",
            is_truncated=False,
        )
        return Response(id=f"turn-{self._turns}", created=0, model=model, message=message)

    # -- what a client of a provider would do ---------------------------------------------------------------------

    def setup_client(self, config: Any) -> None:
        raise AssertionError("it has no provider")

    async def to_native_tool(self, tool: Any) -> Any:
        raise AssertionError("it has no provider")

    async def to_native_prompt(self, messages: Any) -> Any:
        raise AssertionError("it has no provider")

    async def get_native_response(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("it has no provider")

    async def raise_from_native_response(self, response: Any) -> None:
        raise AssertionError("it has no provider")

    async def from_native_response(self, response: Any) -> Any:
        raise AssertionError("it has no provider")

    async def close(self) -> None:
        """Nothing is open."""


def as_message(one: Any) -> Message:
    """As chat templates take it. BadConfig: a bare text, or a picture."""
    told: Message = one.model_dump(exclude_none=True)
    if told["role"] == "text":
        raise BadConfig("this environment of verifiers continues a bare text: only conversations can be played here")
    calls = [_as_call(call) for call in told.pop("tool_calls", [])]
    told["content"] = _words(told.get("content"))
    return {**told, "tool_calls": calls} if calls else told


def _as_call(call: Message) -> Message:
    function = {"name": call["name"], "arguments": json.loads(call["arguments"])}
    return {"id": call["id"], "type": "function", "function": function}


def as_tool(tool: Any) -> Message:
    """A tool's schema."""
    meaning = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": meaning}


def _words(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    if any(part.get("type") != "text" for part in content):
        raise BadConfig("this environment of verifiers shows more than text: it cannot be played here")
    return "".join(part["text"] for part in content)
