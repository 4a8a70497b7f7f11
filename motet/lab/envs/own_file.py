"""A Python file of the user's own as an environment: `motet run --env my_env.py`, or `[environment] name = "file"`.

The file defines one of two:

    def train(index: int) -> Conversation          and, for measuring, held_out(index: int) -> Conversation
    def tasks(tokenizer, seed, **options) -> Tasks     for those who want tokens, the seed or settings of their own
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from transformers import PreTrainedTokenizerBase

from motet.chat.template import Chat
from motet.errors import BadConfig
from motet.lab.envs.conversation import ChatEnvironment, Conversation, Limits
from motet.lab.envs.protocol import Environment, Tasks


@dataclass(frozen=True)
class OwnTasks:
    """Episodes of the file's functions."""

    chat: Chat
    limits: Limits
    training: Callable[[int], Conversation]
    measuring: Callable[[int], Conversation]

    def train(self, index: int) -> Environment:
        return ChatEnvironment(self.training(index), self.chat, self.limits)

    def held_out(self, index: int) -> Environment:
        return ChatEnvironment(self.measuring(index), self.chat, self.limits)


def open_tasks(
    path: Path, tokenizer: PreTrainedTokenizerBase, seed: int, options: dict[str, Any], limits: Limits
) -> Tasks:
    """The tasks of a file. BadConfig: no such file, or it defines neither. What it raises itself passes through."""
    module = _load(path)
    made = getattr(module, "tasks", None)
    if callable(made):
        try:
            inspect.signature(made).bind(tokenizer, seed, **options)
        except TypeError as error:
            raise BadConfig(f"{path}: tasks does not take these options ({error})") from None
        tasks: Tasks = made(tokenizer, seed, **options)
        return tasks
    training, measuring = getattr(module, "train", None), getattr(module, "held_out", None)
    if not callable(training):
        raise BadConfig(f"{path} defines neither train(index) nor tasks(tokenizer, seed): see docs/environments.md")
    if options:
        raise BadConfig(f"{path} takes no options: define tasks(tokenizer, seed, {', '.join(options)})")
    return OwnTasks(Chat(tokenizer), limits, training, measuring if callable(measuring) else training)


def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise BadConfig(f"there is no {path}: set environment.path to a Python file with your environment")
    name = f"motet_env_{zlib.crc32(str(path.resolve()).encode()):08x}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadConfig(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their own module up
    spec.loader.exec_module(module)
    return module
