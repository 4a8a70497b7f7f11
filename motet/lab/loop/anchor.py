"""Holding on to the base model: some of its own answers are learned beside everything else.

Drawn from the base model at temperature 1, the loss of learning them is KL(base, policy) on these prompts up to a
constant, so that forgetting costs something exactly where nobody has asked for a change.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

from motet.chat.template import Message
from motet.errors import BadConfig
from motet.lab.algorithms.base import Batch, Lesson
from motet.lab.algorithms.datums import weighted_datum
from motet.lab.algorithms.examples import Completion
from motet.lab.envs.protocol import Cue
from motet.lab.envs.rollout import mix
from motet.lab.loop.settings import Anchor
from motet.lab.loop.student import Student


class Anchored:
    """The base model's answers, a few for each step, over and over."""

    def __init__(self, answers: Sequence[Completion], anchor: Anchor, seed: int) -> None:
        self._answers = list(answers)
        self._anchor = anchor
        self._dice = Random(f"{seed}/anchor")

    @classmethod
    async def open(cls, student: Student, anchor: Anchor, seed: int) -> Anchored:
        """Ask the base model. BadConfig: no such file, or a line is no prompt."""
        if anchor.prompts is None:
            return cls([], anchor, seed)
        reads = [student.chat.prompt(one) for one in read_prompts(anchor.prompts)]
        cue = Cue([], anchor.max_tokens)
        written = await asyncio.gather(
            *(student.base.write(read, cue, 1, mix(seed, place)) for place, read in enumerate(reads))
        )
        return cls(
            [Completion.of(read, own[0].tokens) for read, own in zip(reads, written, strict=True) if own[0].tokens],
            anchor,
            seed,
        )

    def next(self) -> list[Batch]:
        """A batch for a step; none without prompts."""
        if not self._answers:
            return []
        chosen = self._dice.sample(self._answers, min(self._anchor.batch, len(self._answers)))
        scale = self._anchor.weight / sum(one.written_count for one in chosen)
        return [Batch([Lesson(weighted_datum(one.tokens, one.weights * scale)) for one in chosen], "cross_entropy")]


def read_prompts(file: Path) -> list[list[Message]]:
    """Conversations that an assistant is to answer, of a JSONL file. BadConfig names the line that is none."""
    if not file.is_file():
        raise BadConfig(f'there is no {file}: set prompts of [anchor] to a file of {{"prompt"}} or {{"messages"}}')
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            told = json.loads(line)
        except json.JSONDecodeError as error:
            raise BadConfig(f"{file}:{number}: no JSON ({error})") from None
        prompt = told.get("messages", told.get("prompt")) if isinstance(told, dict) else None
        if not isinstance(prompt, str | list) or not prompt:
            raise BadConfig(f'{file}:{number}: write {{"prompt": "…"}} or {{"messages": […]}}')
        found.append([{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt)
    return found
