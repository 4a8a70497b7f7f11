"""The section [environment] of tau-bench retail."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator
from transformers import PreTrainedTokenizerBase

from motet.chat.template import Chat
from motet.errors import BadConfig
from motet.lab.envs.any_settings import Speaker
from motet.lab.envs.chat_settings import ChatSettings
from motet.lab.envs.protocol import Tasks
from motet.lab.envs.rollout import Policy, mix
from motet.lab.envs.tau_bench.data import SPLITS, SplitName, Task, read_shop
from motet.lab.envs.tau_bench.environment import Cast, RetailTasks, solved_by_nothing
from motet.lab.envs.tau_bench.users import Customer, EndpointCustomer, EndpointModel, ModelCustomer, ScriptedCustomer

BASE, SCRIPT = "base", "script"
Empty = dict[SplitName, list[Task]]


class TauBenchRetailSettings(ChatSettings):
    """tau-bench retail from its published files."""

    name: Literal["tau_bench_retail"]
    path: Path = Field(strict=False)
    turns: int = Field(default=30, ge=1)
    customer: str = BASE  # base, a tinker:// path, script, or the URL of an OpenAI-compatible endpoint
    customer_model: str = ""  # of the endpoint
    customer_key: str = "OPENAI_API_KEY"  # the environment variable that holds the endpoint's key
    customer_temperature: float = Field(default=0.0, ge=0)  # as published
    told: bool = False
    keep_empty: bool = False

    @model_validator(mode="after")
    def _somebody_plays(self) -> Self:
        endpoint = self.customer.startswith(("http://", "https://"))
        if not (endpoint or self.customer in (BASE, SCRIPT) or self.customer.startswith("tinker://")):
            raise ValueError(f"customer is {self.customer!r}: choose base, script, a tinker:// path or an http(s) URL")
        if endpoint and not self.customer_model:
            raise ValueError("a customer behind a URL needs customer_model: the name of the endpoint's model")
        return self

    @property
    def speaker(self) -> Speaker | None:
        own = self.customer == BASE or self.customer.startswith("tinker://")
        return Speaker(self.customer, self.customer_temperature) if own else None

    @property
    def notice(self) -> str | None:
        if self.keep_empty:
            return None
        empty = empty_tasks(self.path, self.told)
        named = "; ".join(f"{split} {', '.join(task.id for task in empty[split])}" for split in SPLITS if empty[split])
        why = "doing nothing solves them; keep_empty = true keeps them"
        return f"tau-bench retail leaves out {named} ({why})" if named else None

    def build(self, tokenizer: PreTrainedTokenizerBase, seed: int, speaker: Policy | None = None) -> Tasks:
        if tokenizer.chat_template is None:
            raise BadConfig("tau-bench retail is played in a chat template, and this model's tokenizer has none")
        left_out = {} if self.keep_empty else empty_tasks(self.path, self.told)
        cast = self._cast(tokenizer, seed, speaker)
        return RetailTasks(read_shop(self.path), Chat(tokenizer), self.limits, cast, self.told, left_out)

    def _cast(self, tokenizer: PreTrainedTokenizerBase, seed: int, speaker: Policy | None) -> Cast:
        chat, key = Chat(tokenizer, thinking=False), os.environ.get(self.customer_key, "")
        if self.speaker is not None and speaker is None:
            raise BadConfig(f"customer is {self.customer!r}, and there is no server here that could play it")

        def play(task: Task, index: int) -> Customer:
            if self.customer == SCRIPT:
                return ScriptedCustomer([task.scenario])
            if speaker is not None:
                return ModelCustomer(speaker, chat, task.scenario, mix(seed, index))
            model = EndpointModel(self.customer, self.customer_model, key, self.customer_temperature)
            return EndpointCustomer(model, task.scenario, mix(seed, index))

        return play


@lru_cache(maxsize=4)
def empty_tasks(folder: Path, told: bool) -> Empty:
    """The tasks that doing nothing solves; found out once a process. BadConfig as `read_shop`."""
    shop = read_shop(folder)
    with ThreadPoolExecutor(1) as aside:  # a loop of its own: one may be running here
        return aside.submit(lambda: asyncio.run(solved_by_nothing(shop, told))).result()
