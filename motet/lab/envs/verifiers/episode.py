"""One episode, turned inside out: in `verifiers` the environment runs the loop, here it is handed what was written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from motet.chat.template import Message
from motet.errors import BadConfig, MotetError
from motet.lab.envs.conversation import Answer, Conversation, Next, Said
from motet.lab.envs.protocol import End

if TYPE_CHECKING:
    from motet.lab.envs.verifiers.mouth import Asked, Mouth

Play = Callable[["Mouth"], Awaitable[Mapping[str, Any]]]  # an episode from its start to its score


class EpisodeFault(MotetError):
    """The environment of verifiers reported a fault of its own."""


class Episode(Conversation):
    """The environment runs as a task of its own, which waits while the policy writes."""

    def __init__(self, play: Play, mouth: Mouth) -> None:
        super().__init__()
        self._play = play
        self._mouth = mouth
        self._messages: list[Message] = []  # all that the environment has said or heard

    async def opening(self) -> list[Message]:
        """BadConfig: it is over before the policy could say anything."""
        self._running = asyncio.ensure_future(self._play(self._mouth))
        asked = await self._next()
        if asked is None:
            raise BadConfig(f"the episode was over at once ({self._end().outcome}): is the dataset's prompt there?")
        self._messages = asked.messages
        self.toolbox.schemas = asked.tools
        return asked.messages

    async def answer(self, said: Said) -> Next:
        """Tools are the environment's to call. BadConfig: it forgets or rewrites what was said."""
        self._mouth.said.put_nowait(said)
        asked = await self._next()
        if asked is None:
            return self._end()
        before, after = asked.messages[: len(self._messages)], asked.messages[len(self._messages) :]
        if before != self._messages or len(after) < 2 or after[0]["role"] != "assistant":
            self._running.cancel()
            raise BadConfig("this environment of verifiers rewrites its conversation: it cannot be played here")
        self._messages = asked.messages
        return Answer([_named(message, after[0]) for message in after[1:]])

    async def reply(self, said: Said) -> Next:
        raise AssertionError("`answer` takes every turn")

    async def cut(self, why: str) -> End:
        self._running.cancel()
        return await super().cut(why)

    async def _next(self) -> Asked | None:
        """What is asked for next; None: the episode is over."""
        asking = asyncio.ensure_future(self._mouth.asked.get())
        try:
            await asyncio.wait([asking, self._running], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._running.cancel()
            raise
        finally:
            if not asking.done():
                asking.cancel()
        return asking.result() if asking.done() and not asking.cancelled() else None

    def _end(self) -> End:
        """EpisodeFault; whatever the environment raised."""
        output = self._running.result()
        if output.get("error"):
            raise EpisodeFault(f"the environment of verifiers failed: {output['error']}")
        return End(float(output["reward"] or 0.0), str(output.get("stop_condition") or "over"))


def _named(message: Message, turn: Message) -> Message:
    """A tool's result with the name of the tool, which some templates show."""
    names = {call["id"]: call["function"]["name"] for call in turn.get("tool_calls", ())}
    return {**message, "name": names[message["tool_call_id"]]} if message.get("tool_call_id") in names else message
