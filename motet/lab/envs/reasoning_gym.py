"""Any of reasoning-gym's procedural problems: `pip install motet[reasoning-gym]`.

The policy answers between <answer> tags; the package's own checker pays. Training and held-out problems have different
seeds.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pydantic import Field
from transformers import PreTrainedTokenizerBase

from motet.chat.template import Chat, Message
from motet.errors import BadConfig
from motet.lab.envs.chat_settings import ChatSettings
from motet.lab.envs.conversation import ChatEnvironment, Conversation, Limits, Next, Said
from motet.lab.envs.protocol import End, Environment, Tasks
from motet.lab.envs.rollout import Policy

SIZE = 1_000_000  # problems of a dataset: each is made when it is asked for
HELD_OUT_SEED = 20_240
RULES = "Solve the problem. Give the answer alone between <answer> and </answer>."
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


class Dataset(Protocol):
    """What a dataset of reasoning-gym offers."""

    def __getitem__(self, index: int) -> dict[str, Any]: ...

    def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float: ...


class Riddle(Conversation):
    """One problem, one answer."""

    def __init__(self, dataset: Dataset, index: int) -> None:
        super().__init__()
        self._dataset = dataset
        self._entry = dataset[index]

    async def opening(self) -> list[Message]:
        return [{"role": "system", "content": RULES}, {"role": "user", "content": str(self._entry["question"])}]

    async def reply(self, said: Said) -> Next:
        found = _ANSWER.findall(said.text)
        if len(found) != 1:  # several answers are no answer
            return End(0.0, "no answer")
        reward = float(self._dataset.score_answer(found[0].strip(), self._entry))
        return End(reward, "right" if reward == 1.0 else "wrong")

    async def answer(self, said: Said) -> Next:
        """There are no tools: JSON in an answer is an answer."""
        return await self.reply(said)


@dataclass(frozen=True)
class Riddles:
    """The problems of one dataset."""

    training: Dataset
    measuring: Dataset
    chat: Chat
    limits: Limits

    def train(self, index: int) -> Environment:
        return ChatEnvironment(Riddle(self.training, index), self.chat, self.limits)

    def held_out(self, index: int) -> Environment:
        return ChatEnvironment(Riddle(self.measuring, index), self.chat, self.limits)


class ReasoningGymSettings(ChatSettings):
    """One of reasoning-gym's datasets, by its name there."""

    name: Literal["reasoning_gym"]
    dataset: str
    turns: int = Field(default=1, ge=1)
    options: dict[str, str | int | float | bool] = {}

    def build(self, tokenizer: PreTrainedTokenizerBase, seed: int, speaker: Policy | None = None) -> Tasks:
        """BadConfig: the package is not there, or has no such dataset or option."""
        training, measuring = (self._open(one) for one in (seed, HELD_OUT_SEED))
        return Riddles(training, measuring, Chat(tokenizer), self.limits)

    def _open(self, seed: int) -> Dataset:
        if importlib.util.find_spec("reasoning_gym") is None:
            raise BadConfig("this environment needs reasoning-gym: pip install 'motet[reasoning-gym]'")
        package = importlib.import_module("reasoning_gym")
        try:
            made: Dataset = package.create_dataset(self.dataset, seed=seed, size=SIZE, **self.options)
        except (ValueError, TypeError, AssertionError) as error:
            raise BadConfig(f"reasoning-gym has no such dataset or option: {error}") from None
        return made
