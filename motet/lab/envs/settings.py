"""The environments by name, with their settings, and how each is built."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field
from transformers import PreTrainedTokenizerBase

from motet.lab.envs.any_settings import EnvironmentSettings
from motet.lab.envs.chat_settings import ChatSettings
from motet.lab.envs.formats.base import Format
from motet.lab.envs.formats.plain import PlainFormat
from motet.lab.envs.formats.template import TemplateFormat
from motet.lab.envs.gsm8k import Gsm8k
from motet.lab.envs.own_file import open_tasks
from motet.lab.envs.problems import Problems
from motet.lab.envs.protocol import Tasks
from motet.lab.envs.reasoning_gym import ReasoningGymSettings
from motet.lab.envs.rollout import Policy
from motet.lab.envs.tau_bench.settings import TauBenchRetailSettings
from motet.lab.envs.tool_problems import Limits, ToolProblems
from motet.lab.envs.verifiers.settings import VerifiersSettings
from motet.lab.envs.word_problems import WordProblems


class ToolSettings(EnvironmentSettings):
    """What all environments with Calculator and FinalAnswer share."""

    format: Literal["plain", "template"] = "plain"
    examples: int = Field(default=3, ge=0, le=20)
    turns: int = Field(default=4, ge=1)
    turn_tokens: int = Field(default=24, ge=1)
    hints: bool = False

    @property
    def gives_hints(self) -> bool:
        return self.hints

    def tasks(self, problems: Problems, tokenizer: PreTrainedTokenizerBase) -> ToolProblems:
        form: Format = PlainFormat(tokenizer) if self.format == "plain" else TemplateFormat(tokenizer)
        return ToolProblems(problems, form, Limits(self.turns, self.turn_tokens), self.examples, self.hints)


class WordProblemSettings(ToolSettings):
    """Word problems from the seeded generator."""

    name: Literal["word_problems"] = "word_problems"
    operations: Literal[1, 2] = 1
    operators: str = Field(default="+-", pattern=r"^[-+*/]+$")

    def build(self, tokenizer: PreTrainedTokenizerBase, seed: int, speaker: Policy | None = None) -> Tasks:
        return self.tasks(WordProblems(self.operations, self.operators, seed), tokenizer)


class Gsm8kSettings(ToolSettings):
    """GSM8K: the files of a folder, or the hub's."""

    name: Literal["gsm8k"]
    path: Path | None = Field(default=None, strict=False)

    def build(self, tokenizer: PreTrainedTokenizerBase, seed: int, speaker: Policy | None = None) -> Tasks:
        return self.tasks(Gsm8k(self.path, seed), tokenizer)


class FileSettings(ChatSettings):
    """A Python file of the user's own."""

    name: Literal["file"]
    path: Path = Field(strict=False)
    options: dict[str, str | int | float | bool] = {}

    @property
    def gives_hints(self) -> bool:
        """It may: nobody knows before it is asked."""
        return True

    def build(self, tokenizer: PreTrainedTokenizerBase, seed: int, speaker: Policy | None = None) -> Tasks:
        return open_tasks(self.path, tokenizer, seed, dict(self.options), self.limits)


AnyEnvironment = Annotated[
    WordProblemSettings
    | Gsm8kSettings
    | FileSettings
    | TauBenchRetailSettings
    | ReasoningGymSettings
    | VerifiersSettings,
    Field(discriminator="name"),
]
ENVIRONMENTS: dict[str, type[BaseModel]] = {
    "word_problems": WordProblemSettings,
    "gsm8k": Gsm8kSettings,
    "file": FileSettings,
    "tau_bench_retail": TauBenchRetailSettings,
    "reasoning_gym": ReasoningGymSettings,
    "verifiers": VerifiersSettings,
}
