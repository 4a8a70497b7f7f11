"""One training: its items become steps of a run, and the run a checkpoint. An ordinary run, beside all others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from motet.lab.algorithms.base import Batch
from motet.lab.algorithms.dpo import Dpo
from motet.lab.algorithms.kto import Kto
from motet.lab.algorithms.reinforce import Reinforce
from motet.lab.algorithms.self_distillation import Answer, taught
from motet.lab.algorithms.sft import Sft
from motet.lab.envs.protocol import Cue
from motet.lab.envs.rollout import mix
from motet.lab.loop.anchor import Anchored
from motet.lab.loop.items import Item
from motet.lab.loop.lessons import Portion, Shown, lesson_of, portions
from motet.lab.loop.practice import practise
from motet.lab.loop.settings import Learn, Policy
from motet.lab.loop.student import Student

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Learned:
    """What came of it, in numbers."""

    steps: int
    items: int  # that had something to teach
    losses: list[float]


async def learn(student: Student, items: Sequence[Item], policy: Policy, seed: int, tell: Tell) -> Learned:
    """All steps of a round: its items in every epoch, the anchor in each step, then the tasks that are practised."""
    anchored = await Anchored.open(student, policy.anchor, seed)
    steps = portions(items, policy.learn, seed)
    losses = []
    for number, portion in enumerate(steps, 1):
        batch = await batch_of(student, portion, policy.learn, mix(seed, number))
        own = [batch] if batch.lessons else []
        if own:
            losses.append(await student.step([*own, *anchored.next()]))
            tell(f"step {number} of {len(steps)}: {portion.way}, {len(portion.items)} items, loss {losses[-1]:.3f}")
    if policy.tasks is not None:
        losses += await practise(student, policy.tasks, seed, tell)
    return Learned(len(losses), len({one.number for step in steps for one in step.items}), losses)


async def batch_of(student: Student, portion: Portion, learn: Learn, seed: int) -> Batch:
    """What one step trains on, as the newest version sees it."""
    lessons: list[Any] = [lesson_of(one, portion.way, learn, student.chat) for one in portion.items]
    if portion.way == "self_distillation":
        return await _distilled(student, lessons, learn.max_tokens, seed)
    algorithms = {
        "sft": Sft(name="sft"),
        "dpo": Dpo(name="dpo", beta=learn.beta),
        "kto": Kto(name="kto", beta=learn.beta),
        # Answers of an earlier version: importance weights, cut off, make up for what has changed since.
        "reinforce": Reinforce(name="reinforce", correction="truncate", kl=learn.kl),
    }
    batch: Batch = await algorithms[portion.way].batch(lessons, student.scorers)
    return batch


async def _distilled(student: Student, lessons: Sequence[Shown], longest: int, seed: int) -> Batch:
    """Fresh answers to the prompts, each judged by the same version with the correction in its context."""
    written = await asyncio.gather(
        *(student.policy.write(one.prompt, Cue([], longest), 1, mix(seed, n)) for n, one in enumerate(lessons))
    )
    answers = [
        Answer(one.prompt, own[0].tokens, own[0].logprobs, one.hint)
        for one, own in zip(lessons, written, strict=True)
        if own[0].tokens
    ]
    return Batch(await taught(answers, student.scorers.current), "importance_sampling")
