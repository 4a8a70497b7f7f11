"""Episodes in messages: subclass, say what is read first and what follows each of the policy's turns.

    class Guess(Conversation):
        def __init__(self, number: int) -> None:
            super().__init__(tools=[self.compare])
            self.number = number

        def compare(self, guess: int) -> str:
            \"\"\"Is the number that you think of larger or smaller?\"\"\"
            return "larger" if guess < self.number else "smaller" if guess > self.number else "equal"

        async def opening(self) -> list[Message]:
            return [{"role": "user", "content": "Find my number, from 1 to 100. Say it when you know it."}]

        async def reply(self, said: Said) -> Next:
            return End(1.0, "right") if str(self.number) in said.text else End(0.0, "wrong")

A turn with tool calls is answered by the tools, one without them by `reply`.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from motet.chat.calls import ToolCall, read_calls
from motet.chat.template import Chat, Message
from motet.chat.thoughts import spoken
from motet.errors import BadConfig
from motet.lab.envs.protocol import Cue, End, Written
from motet.lab.envs.tools import Toolbox

Result = TypeVar("Result")


@dataclass(frozen=True)
class Said:
    """A turn of the policy's: its text without thoughts and end mark, and the calls in it."""

    text: str
    calls: list[ToolCall]


@dataclass(frozen=True)
class Answer:
    """What the policy reads next, and what its turn has earned."""

    messages: list[Message]
    reward: float = 0.0


Next = Answer | End


@dataclass(frozen=True)
class Limits:
    """How much an episode may take. tokens: read and written together; seconds: of the clock."""

    turns: int = 16
    turn_tokens: int = 256
    tokens: int = 32_768
    seconds: float = 600.0


@dataclass
class Spent:
    """How much it has taken."""

    turns: int = 0
    tokens: int = 0
    began: float = field(default_factory=time.monotonic)


class Conversation(ABC):
    """One episode, used once."""

    def __init__(self, tools: Sequence[Callable[..., object]] = ()) -> None:
        self.toolbox = Toolbox(tools)

    @abstractmethod
    async def opening(self) -> list[Message]:
        """What is read first; its last message is not the assistant's."""

    @abstractmethod
    async def reply(self, said: Said) -> Next:
        """What follows a turn without a call."""

    async def answer(self, said: Said) -> Next:
        """What follows a turn: of the tools it calls, else `reply`."""
        if not said.calls:
            return await self.reply(said)
        results = [await self.toolbox.use(call) for call in said.calls]
        return Answer(
            [
                {"role": "tool", "name": call.name, "content": result, "tool_call_id": f"call{place}"}
                for place, (call, result) in enumerate(zip(said.calls, results, strict=True))
            ]
        )

    async def cut(self, why: str) -> End:
        """The episode ends by a limit: `truncated`, `out of turns`, `out of tokens` or `out of time`."""
        return End(0.0, why)


class ChatEnvironment:
    """A conversation as the rollout takes it: in tokens."""

    def __init__(self, conversation: Conversation, chat: Chat, limits: Limits) -> None:
        self._conversation = conversation
        self._chat = chat
        self._limits = limits
        self._spent = Spent()

    async def start(self) -> Cue:
        messages = await self._in_time(self._conversation.opening())
        prompt = self._chat.prompt(messages, self._conversation.toolbox.schemas)
        if len(prompt) >= self._limits.tokens:
            least = f"it begins with {len(prompt)} tokens, and an episode may take {self._limits.tokens}"
            raise BadConfig(f"{least}: set episode_tokens higher, or take a base model with a longer context")
        return self._cue(prompt, 0.0)

    async def step(self, written: Written) -> Cue | End:
        self._spent.turns += 1
        self._spent.tokens += len(written.tokens)
        if not written.stopped:
            return await self._conversation.cut("truncated")
        text = written.text.removesuffix(self._chat.end) if self._chat.end else written.text
        said = Said(spoken(text), read_calls(text))
        try:
            following = await self._in_time(self._conversation.answer(said))
        except TimeoutError:
            return await self._conversation.cut("out of time")
        if isinstance(following, End):
            return following
        if self._spent.turns >= self._limits.turns:
            return await self._conversation.cut("out of turns")
        tokens = self._chat.between(following.messages, written.text, self._conversation.toolbox.schemas)
        if self._spent.tokens + len(tokens) >= self._limits.tokens:
            return await self._conversation.cut("out of tokens")
        return self._cue(tokens, following.reward)

    def _cue(self, tokens: list[int], reward: float) -> Cue:
        self._spent.tokens += len(tokens)
        return Cue(tokens, min(self._limits.turn_tokens, self._limits.tokens - self._spent.tokens), reward=reward)

    async def _in_time(self, work: Awaitable[Result]) -> Result:
        """TimeoutError where the episode's seconds are over."""
        left = self._limits.seconds - (time.monotonic() - self._spent.began)
        return await asyncio.wait_for(work, max(left, 0.001))
