"""Checkable tasks, practised in every round: groups of episodes of an environment, by GRPO."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from motet.lab.envs.rollout import mix, play_group, play_groups
from motet.lab.loop.settings import Tasks
from motet.lab.loop.student import Student


async def practise(student: Student, tasks: Tasks, seed: int, tell: Callable[[str], None]) -> list[float]:
    """The losses of its steps. A step whose groups have nothing to teach is left out."""
    made = await asyncio.to_thread(tasks.environment.build, student.chat.tokenizer, seed, None)
    losses = []
    for step in range(tasks.steps):
        first = step * tasks.problems
        played = await play_groups(
            play_group(index, [made.train(index) for _ in range(tasks.samples)], student.policy, mix(seed, index))
            for index in range(first, first + tasks.problems)
        )
        rewards = [reward for group in played.groups for reward in group.rewards]
        batch = await tasks.algorithm.batch(played.groups, student.scorers)
        if batch.lessons:
            losses.append(await student.step([batch]))
        tell(f"practice {step + 1} of {tasks.steps}: mean reward {sum(rewards) / max(len(rewards), 1):.2f}")
    return losses
