"""Any environment of the package `verifiers`, by its name there: `pip install motet[verifiers]`.

Its dataset is what is learned from, its evaluation dataset what is measured by; without one, the last tenth of the
dataset is kept for that. Its own rubric pays, its own tools are shown and called.
"""

from __future__ import annotations

import importlib
import importlib.util
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, Literal

from transformers import PreTrainedTokenizerBase

from motet.chat.template import Chat
from motet.errors import BadConfig
from motet.lab.envs.chat_settings import ChatSettings
from motet.lab.envs.conversation import ChatEnvironment, Limits
from motet.lab.envs.protocol import Environment, Tasks
from motet.lab.envs.rollout import Policy
from motet.lab.envs.verifiers.episode import Episode

HELD_OUT = 0.1
Row = Mapping[str, Any]


@dataclass(frozen=True)
class VerifiersTasks:
    """The rows of one environment's datasets."""

    environment: Any
    training: Sequence[Row]
    measuring: Sequence[Row]
    order: Sequence[int]
    chat: Chat
    limits: Limits

    def train(self, index: int) -> Environment:
        return self._episode(self.training[self.order[index % len(self.order)]])

    def held_out(self, index: int) -> Environment:
        return self._episode(self.measuring[index % len(self.measuring)])

    def _episode(self, row: Row) -> Environment:
        from motet.lab.envs.verifiers.mouth import MODEL, Mouth

        play = partial(self.environment.run_rollout, row, model=MODEL, sampling_args={})
        return ChatEnvironment(Episode(play, Mouth()), self.chat, self.limits)


class VerifiersSettings(ChatSettings):
    """One environment of verifiers."""

    name: Literal["verifiers"]
    id: str
    options: dict[str, str | int | float | bool] = {}

    @property
    def notice(self) -> str | None:
        if importlib.util.find_spec("verifiers") is None:
            raise BadConfig("this environment needs verifiers: pip install 'motet[verifiers]'")
        return None

    def build(self, tokenizer: PreTrainedTokenizerBase, seed: int, speaker: Policy | None = None) -> Tasks:
        """BadConfig: the package is not there, or has no such environment, or one that scores whole groups."""
        environment = self._open()
        if environment.requires_group_rollouts:
            raise BadConfig(f"{self.id} scores the episodes of a group against each other: it cannot be played here")
        training = list(environment.get_dataset())
        environment.build_eval_dataset()
        if environment.eval_dataset is not None:
            measuring = list(environment.get_eval_dataset())
        else:
            kept = max(1, round(HELD_OUT * len(training)))
            training, measuring = training[:-kept], training[-kept:]
        if not training:
            raise BadConfig(f"the dataset of {self.id} has too few rows to learn from")
        order = Random(seed).sample(range(len(training)), len(training))
        return VerifiersTasks(environment, training, measuring, order, Chat(tokenizer), self.limits)

    def _open(self) -> Any:
        assert self.notice is None
        package = importlib.import_module("verifiers")
        _leave_signals(importlib.import_module("verifiers.envs.environment"))
        try:
            return package.load_environment(self.id, **self.options)
        except (ImportError, ValueError, TypeError, AttributeError, RuntimeError) as error:
            raise BadConfig(f"verifiers cannot load {self.id!r}: {error}") from None


def _leave_signals(module: Any) -> None:
    """Each environment there takes SIGINT and SIGTERM of the whole process for itself, which only the main thread may;
    here Ctrl-C ends a sweep in order. What an environment wants torn down is, at the process's end."""
    module.signal = SimpleNamespace(**{**vars(signal), "signal": lambda number, handler: None})
