"""The environments by name, with their settings, and how each is built."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from transformers import PreTrainedTokenizerBase

from motet.lab.envs.formats.base import Format
from motet.lab.envs.formats.plain import PlainFormat
from motet.lab.envs.formats.template import TemplateFormat
from motet.lab.envs.gsm8k import Gsm8k
from motet.lab.envs.problems import Problems
from motet.lab.envs.protocol import Tasks
from motet.lab.envs.tool_problems import Limits, ToolProblems
from motet.lab.envs.word_problems import WordProblems


class ToolSettings(BaseModel):
    """What all environments with Calculator and FinalAnswer share."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    format: Literal["plain", "template"] = "plain"
    examples: int = Field(default=3, ge=0, le=20)
    turns: int = Field(default=4, ge=1)
    turn_tokens: int = Field(default=24, ge=1)

    def tasks(self, problems: Problems, tokenizer: PreTrainedTokenizerBase) -> ToolProblems:
        form: Format = PlainFormat(tokenizer) if self.format == "plain" else TemplateFormat(tokenizer)
        return ToolProblems(problems, form, Limits(self.turns, self.turn_tokens), self.examples)


class WordProblemSettings(ToolSettings):
    """Word problems from the seeded generator."""

    name: Literal["word_problems"] = "word_problems"
    operations: Literal[1, 2] = 1
    operators: str = Field(default="+-", pattern=r"^[-+*/]+$")

    def build(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Tasks:
        return self.tasks(WordProblems(self.operations, self.operators, seed), tokenizer)


class Gsm8kSettings(ToolSettings):
    """GSM8K: the files of a folder, or the hub's."""

    name: Literal["gsm8k"]
    path: Path | None = Field(default=None, strict=False)

    def build(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Tasks:
        return self.tasks(Gsm8k(self.path, seed), tokenizer)


EnvironmentSettings = Annotated[WordProblemSettings | Gsm8kSettings, Field(discriminator="name")]
