"""An environment of one's own in forty lines: find a number with a tool. `motet run --env examples/guess.py`."""

from __future__ import annotations

from random import Random

from motet.chat.template import Message
from motet.lab.envs.conversation import Answer, Conversation, Next, Said
from motet.lab.envs.protocol import End


class Guess(Conversation):
    """One episode: the policy compares guesses with the number, then says it."""

    def __init__(self, number: int) -> None:
        super().__init__(tools=[self.compare])
        self.number = number

    def compare(self, guess: int) -> str:
        """Is the number larger or smaller than this guess?"""
        return "larger" if guess < self.number else "smaller" if guess > self.number else "equal"

    async def opening(self) -> list[Message]:
        return [{"role": "user", "content": "I think of a number from 1 to 10. Find it with compare, then say it."}]

    async def reply(self, said: Said) -> Next:
        """After a turn without a call: that was the answer, or words that lead nowhere."""
        words = said.text.replace(".", " ").split()
        numbers = [int(word) for word in words if word.isdigit()]
        if not numbers:
            return Answer([{"role": "user", "content": "Which number?"}], reward=-0.1)
        return End(1.0, "right") if numbers == [self.number] else End(0.0, "wrong")


def train(index: int) -> Conversation:
    return Guess(Random(f"train {index}").randint(1, 10))


def held_out(index: int) -> Conversation:
    return Guess(Random(f"held out {index}").randint(1, 10))
