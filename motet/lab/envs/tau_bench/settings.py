"""The section [environment] of tau-bench retail."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from pydantic import Field
from transformers import PreTrainedTokenizerBase

from motet.chat.template import Chat
from motet.errors import BadConfig
from motet.lab.envs.chat_settings import ChatSettings
from motet.lab.envs.protocol import Tasks
from motet.lab.envs.rollout import Policy, mix
from motet.lab.envs.tau_bench.data import Task, read_shop
from motet.lab.envs.tau_bench.environment import Cast, RetailTasks, solved_by_nothing
from motet.lab.envs.tau_bench.users import Customer, EndpointCustomer, ModelCustomer, ScriptedCustomer

BASE = "base"


class TauBenchRetailSettings(ChatSettings):
    """tau-bench retail from its published files."""

    name: Literal["tau_bench_retail"]
    path: Path = Field(strict=False)
    turns: int = Field(default=30, ge=1)
    customer: str = BASE  # base, a tinker:// path, script, or the URL of an OpenAI-compatible endpoint
    customer_model: str = ""  # of the endpoint
    customer_key: str = "OPENAI_API_KEY"  # the environment variable that holds the endpoint's key
    told: bool = False
    keep_empty: bool = False

    @property
    def speaker(self) -> str | None:
        return self.customer if self.customer == BASE or self.customer.startswith("tinker://") else None

    def build(self, tokenizer: PreTrainedTokenizerBase, seed: int, speaker: Policy | None = None) -> Tasks:
        shop, chat = read_shop(self.path), Chat(tokenizer)
        if tokenizer.chat_template is None:
            raise BadConfig("tau-bench retail is played in a chat template, and this model's tokenizer has none")
        with ThreadPoolExecutor(1) as aside:  # a loop of its own: one may be running here
            empty = aside.submit(lambda: asyncio.run(solved_by_nothing(shop, self.told))).result()
        left_out = {} if self.keep_empty else empty
        return RetailTasks(shop, chat, self.limits, self._cast(chat, seed, speaker), self.told, left_out)

    def _cast(self, chat: Chat, seed: int, speaker: Policy | None) -> Cast:
        def play(task: Task, index: int) -> Customer:
            if self.customer == "script":
                return ScriptedCustomer([task.scenario])
            if speaker is not None:
                return ModelCustomer(speaker, chat, task.scenario, mix(seed, index))
            key = os.environ.get(self.customer_key, "")
            return EndpointCustomer(self.customer, self.customer_model, key, task.scenario, mix(seed, index))

        return play
