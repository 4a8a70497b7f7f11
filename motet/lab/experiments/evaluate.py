"""Measuring on what is never trained on: always the same problems or examples, each with its own number."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import numpy as np

from motet.lab.algorithms.base import Takes
from motet.lab.algorithms.examples import Completion
from motet.lab.envs.protocol import Tasks
from motet.lab.envs.rollout import Policy, mix, play_group, play_groups
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.progress import Accuracy
from motet.lab.experiments.trainee import Trainee

SEED = 20_240


class Exam(Protocol):
    """What an experiment is measured by."""

    async def take(self, trainee: Trainee) -> Accuracy: ...


class EpisodeExam:
    """The first held-out problems, one sample each at the training temperature."""

    def __init__(self, tasks: Tasks, problems: int) -> None:
        self._tasks = tasks
        self._problems = problems

    async def take(self, trainee: Trainee) -> Accuracy:
        return await evaluate(self._tasks, trainee.policy, self._problems)


async def evaluate(tasks: Tasks, policy: Policy, problems: int) -> Accuracy:
    """Play the first held-out problems once each, all at the same time. One whose environment raises has no reward."""
    groups = (play_group(i, [tasks.held_out(i)], policy, mix(SEED, i)) for i in range(problems))
    played = await play_groups(groups)
    earned = {group.problem: group.rewards[0] for group in played.groups}
    return Accuracy.of([earned.get(problem) for problem in range(problems)])


class FileExam:
    """Held-out examples. Of conversations: the mean log-probability of a token that is to be learned. Of pairs and
    judged answers: 1 where the policy has moved from the base model to the right side, else 0."""

    def __init__(self, takes: Takes, examples: Sequence[Any]) -> None:
        self._takes = takes
        self._examples = examples

    async def take(self, trainee: Trainee) -> Accuracy:
        one = {"conversations": _likelihood, "pairs": _ordered, "judged": _agreed}[self._takes]
        return Accuracy.of(await asyncio.gather(*(one(example, trainee) for example in self._examples)))


async def _likelihood(example: Completion, trainee: Trainee) -> float:
    scored = np.asarray(await trainee.scorers.current.logprobs(example.tokens))
    return float((scored * example.weights)[1:].sum() / max(example.written_count, 1))


async def _liking(example: Completion, trainee: Trainee) -> float:
    scorers = trainee.scorers
    mine, theirs = await asyncio.gather(scorers.current.logprobs(example.tokens), scorers.base.logprobs(example.tokens))
    return float((example.weights * (np.asarray(mine) - np.asarray(theirs))).sum())


async def _ordered(example: Any, trainee: Trainee) -> float:
    chosen, rejected = await asyncio.gather(_liking(example.chosen, trainee), _liking(example.rejected, trainee))
    return float(chosen > rejected)


async def _agreed(example: Any, trainee: Trainee) -> float:
    liking = await _liking(example.answer, trainee)
    return float(liking > 0 if example.good else liking < 0)


class Baselines:
    """Measurements at the start. A fresh adapter changes nothing, so experiments with the same problems start at the
    same one: it is measured once, by whoever comes first."""

    def __init__(self) -> None:
        self._known: dict[str, asyncio.Future[Accuracy]] = {}

    async def get(self, experiment: Experiment, measure: Callable[[], Awaitable[Accuracy]]) -> Accuracy:
        included = {"environment", "data", "temperature", "eval_problems"}
        key = f"{experiment.algorithm.takes} {experiment.model_dump_json(include=included)}"
        if key not in self._known:
            self._known[key] = asyncio.ensure_future(measure())
        return await asyncio.shield(self._known[key])
