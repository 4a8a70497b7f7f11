"""The smallest problem with a known optimum: write the letter a. A reward of 1 for each turn of nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from motet.lab.envs.protocol import Cue, End, Environment, Written

WORDS = 3  # tokens written


@dataclass
class Letters:
    """One episode."""

    prompt: list[int]
    wanted: int
    hint: list[int]

    async def start(self) -> Cue:
        return Cue(self.prompt, WORDS, hint=self.hint)

    async def step(self, written: Written) -> Cue | End:
        right = sum(token == self.wanted for token in written.tokens) / WORDS
        return End(right, "right" if right == 1 else "wrong")


@dataclass(frozen=True)
class LetterTasks:
    tokenizer: PreTrainedTokenizerBase

    def train(self, index: int) -> Environment:
        (wanted,) = self.tokenizer.encode("a")
        prompt = self.tokenizer.encode(f"Word {index % 4}:")
        return Letters(prompt, wanted, [*self.tokenizer.encode("aaaaaaaaaaaa"), *prompt])

    held_out = train


def tasks(tokenizer: PreTrainedTokenizerBase, seed: int) -> LetterTasks:
    return LetterTasks(tokenizer)
