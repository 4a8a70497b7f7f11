"""Accuracy on held-out problems: one sample each at the training temperature, always the same problems."""

from __future__ import annotations

import asyncio

from motet.lab.envs.protocol import Tasks
from motet.lab.envs.rollout import Policy, mix, play_group, play_groups
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.progress import Accuracy

SEED = 20_240


async def evaluate(tasks: Tasks, policy: Policy, problems: int) -> Accuracy:
    """Play the first held-out problems once each, all at the same time."""
    groups = (play_group(i, [tasks.held_out(i)], policy, mix(SEED, i)) for i in range(problems))
    played = await play_groups(groups)
    return Accuracy.of([reward for group in played.groups for reward in group.rewards])


class Baselines:
    """Accuracies at the start. A fresh adapter changes nothing, so experiments with the same environment
    start at the same one: it is measured once, by whoever comes first."""

    def __init__(self) -> None:
        self._known: dict[str, asyncio.Task[Accuracy]] = {}

    async def get(self, experiment: Experiment, tasks: Tasks, policy: Policy) -> Accuracy:
        key = experiment.model_dump_json(include={"environment", "temperature", "eval_problems"})
        if key not in self._known:
            measuring = evaluate(tasks, policy, experiment.eval_problems)
            self._known[key] = asyncio.create_task(measuring)
        return await asyncio.shield(self._known[key])
