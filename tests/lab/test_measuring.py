"""A step's numbers, by hand."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import numpy as np

from motet.lab.algorithms.base import Batch, Lesson
from motet.lab.algorithms.datums import policy_datum, weighted_datum
from motet.lab.envs.protocol import Cue, End, Group, Trajectory, Turn, Written
from motet.lab.experiments.evaluate import evaluate
from motet.lab.experiments.measuring import measured
from motet.lab.experiments.progress import Accuracy, Seconds
from motet.lab.experiments.sources import Gathered
from motet.lab.experiments.trainee import Trained


def episode(reward: float, outcome: str, version: int, *texts: str, logprob: float = -0.5) -> Trajectory:
    turns = [Turn([1, 2], Written([3, 4], [logprob, logprob], text, True)) for text in texts]
    return Trajectory(turns, End(reward, outcome), version)


def test_a_steps_numbers_by_hand() -> None:
    groups = [
        Group(0, [episode(1.0, "right", 4, '<tool_call>{"name": "a", "arguments": {}}</tool_call>', "done")]),
        Group(1, [episode(0.0, "wrong", 3, '<tool_call>{"name": ', logprob=-2.0), episode(0.5, "wrong", 4, " ")]),
    ]
    datums = [
        policy_datum([1, 2, 3, 4], np.zeros(4), np.asarray([0, 0, 0.5, -0.5])),
        weighted_datum([1, 2, 3], np.asarray([1.0, 0.0, 1.0])),  # the first token's weight is of no use
    ]
    batch = Batch([Lesson(one) for one in datums], "ppo", left_out=1, metrics={"staleness_mean": 0.1})
    trained = Trained(0.25, 1.5, [0.5, 0.25], training=1.0, waiting=0.5, publishing=0.125)
    told = measured(7, 4, 1e-3, Gathered(groups, groups, ["it broke"], 2), batch, trained, Seconds(sampling=2.0))
    assert (told.reward, told.outcomes) == (0.5, {"right": 1, "wrong": 2})
    assert (told.groups, told.groups_left_out, told.failed_episodes, told.dropped) == (2, 1, 1, 2)
    assert (told.tokens, told.tokens_per_second) == (8, 4.0)
    assert (told.calls, told.torn_calls, told.empty) == (1, 1, 1)
    assert told.entropy == (6 * 0.5 + 2 * 2.0) / 8
    assert (told.version, told.staleness) == (4, 1)
    assert told.trained_tokens == 3
    assert (told.mismatch_mean, told.mismatch_max) == (0.375, 0.5)
    assert told.algorithm == {"staleness_mean": 0.1}


def test_a_step_that_taught_nothing() -> None:
    told = measured(1, 1, 1e-3, Gathered(["an example"]), Batch([], "cross_entropy"), None, Seconds())
    assert (told.loss, told.grad_norm, told.mismatch_mean, told.entropy) == (None, None, None, None)
    assert (told.reward, told.groups, told.trained_tokens) == (0.0, 0, 0)
    assert not math.isnan(told.tokens_per_second)


class OneTurn:
    """Pays 1; raises where it is told to."""

    def __init__(self, raises: bool) -> None:
        self.raises = raises

    async def start(self) -> Cue:
        return Cue([1], 4)

    async def step(self, written: Written) -> Cue | End:
        if self.raises:
            raise RuntimeError("no customer")
        return End(1.0, "right")


class SomeFail:
    """Tasks whose second problem cannot be played to its end."""

    def train(self, index: int) -> OneTurn:
        return OneTurn(raises=index == 1)

    held_out = train


class Silent:
    version = 1

    async def write(self, tokens: Sequence[int], cue: Cue, count: int, seed: int) -> list[Written]:
        return [Written([2], [0.0], "", True)] * count


def test_a_held_out_problem_that_fails_keeps_its_place() -> None:
    assert asyncio.run(evaluate(SomeFail(), Silent(), 3)) == Accuracy.of([1.0, None, 1.0])
