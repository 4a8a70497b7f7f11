"""Where a step's material comes from: in order and once each, within the bound on staleness, never held up by a few."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from motet.lab.algorithms.dapo import Dapo
from motet.lab.algorithms.files import DataSettings
from motet.lab.algorithms.sft import Sft
from motet.lab.envs.protocol import Cue, End, Group, Trajectory, Written
from motet.lab.envs.rollout import EnvironmentFailed, Policy
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.sources import Episodes, FileExamples, Gathered
from motet.lab.experiments.stream import Stream, version_of

EXPERIMENT = Experiment(mode="async", problems=4, samples=2, max_staleness=1)
TRAINING = 10.0  # seconds of a step, in which episodes go on


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time is that of the next thing to happen: hours pass at once, and always in the same way."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:
            self.now = max(self.now, self._scheduled[0]._when)
        super()._run_once()


def run(work: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=Clock) as runner:
        return runner.run(work)


@dataclass
class Version:
    version: int

    async def write(self, tokens: object, cue: Cue, count: int, seed: int) -> list[Written]:
        raise AssertionError("nobody writes here")


def group(problem: int, version: int, rewards: tuple[float, ...] = (0.0, 1.0)) -> Group:
    return Group(problem, [Trajectory([], End(reward, "done"), version) for reward in rewards])


def lasting(seconds: Callable[[int], float]) -> Any:
    async def play(index: int, policy: Policy) -> Group:
        await asyncio.sleep(seconds(index))
        return group(index, policy.version)

    return play


@dataclass
class Walk:
    """Steps of a stream: what each took, at which version, and when it had it."""

    taken: list[Gathered]
    at: list[float]

    async def steps(self, stream: Any, count: int, first: int = 1) -> Walk:
        clock = asyncio.get_running_loop()
        for version in range(first, first + count):
            self.taken.append(await stream.take())
            self.at.append(clock.time())
            await asyncio.sleep(TRAINING)
            stream.renew(Version(version + 1))
        return self

    @property
    def problems(self) -> list[int]:
        return [one.problem for gathered in self.taken for one in gathered.groups]

    @property
    def staleness(self) -> list[int]:
        return [version - version_of(one) for version, gathered in enumerate(self.taken, 1) for one in gathered.groups]


async def walk(experiment: Experiment, seconds: Callable[[int], float], steps: int) -> Walk:
    stream = Stream(experiment, lasting(seconds), Version(1), {})
    try:
        return await Walk([], []).steps(stream, steps)
    finally:
        await stream.close()


def test_a_stream_of_equal_episodes_takes_each_once_in_order_and_one_version_old() -> None:
    told = run(walk(EXPERIMENT, lambda index: 5.0, 6))
    assert told.problems == list(range(24))
    assert sum(one.dropped for one in told.taken) == 0
    assert told.staleness == [0] * 4 + [1] * 20
    assert told.at == [5.0 + TRAINING * step for step in range(6)]  # episodes pass while it trains


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_nothing_is_staler_than_the_bound(bound: int) -> None:
    experiment = EXPERIMENT.model_copy(update={"max_staleness": bound})
    told = run(walk(experiment, lambda index: 1.0 + 37 * index % 29, 30))
    assert max(told.staleness) <= bound
    assert all(len(one.groups) == 4 for one in told.taken)


def test_a_long_tail_does_not_hold_back_the_rest() -> None:
    """One group in eight takes a hundred times as long. With room for it steps come as often as without; with a tight
    bound a step may miss one group, and waits for an ordinary one, never for a slow one. What is too old is told."""

    def seconds(index: int) -> float:
        return 800.0 if index % 8 == 3 else 8.0

    roomy = run(walk(EXPERIMENT.model_copy(update={"max_staleness": 2}), seconds, 20))
    tight = run(walk(EXPERIMENT, seconds, 20))
    assert roomy.at[-1] <= 8.0 + 1.1 * 19 * TRAINING
    assert tight.at[-1] <= 8.0 + 19 * (TRAINING + 8.0)
    for told in (roomy, tight):
        assert sum(one.dropped for one in told.taken) > 0
        assert not {index for index in told.problems if index % 8 == 3}


def test_an_episode_ends_on_the_version_that_it_began_with() -> None:
    told = run(walk(EXPERIMENT.model_copy(update={"max_staleness": 9}), lambda index: 35.0 if index == 0 else 2.0, 12))
    (slow,) = [one for gathered in told.taken for one in gathered.groups if one.problem == 0]
    assert version_of(slow) == 1
    assert told.problems.index(0) >= 8


def test_a_stream_goes_on_where_it_was_and_loses_nothing() -> None:
    async def both() -> tuple[Walk, Walk]:
        stream = Stream(EXPERIMENT, lasting(lambda index: 1.0 + index % 3), Version(1), {})
        first = await Walk([], []).steps(stream, 3)
        position = stream.position()
        await stream.close()
        again = Stream(EXPERIMENT, lasting(lambda index: 1.0), Version(4), position)
        second = await Walk([], []).steps(again, 3, first=4)
        await again.close()
        return first, second

    first, second = run(both())
    assert sorted(first.problems + second.problems) == list(range(24))


def test_a_stream_tells_what_fails_and_gives_up_when_everything_does() -> None:
    async def some(index: int, policy: Policy) -> Group:
        if index % 2:
            raise EnvironmentFailed(f"the environment raised {index}")
        return group(index, policy.version)

    async def none(index: int, policy: Policy) -> Group:
        raise EnvironmentFailed("the environment raised nothing but errors")

    async def first(play: Any) -> Gathered:
        stream = Stream(EXPERIMENT, play, Version(1), {})
        try:
            return await stream.take()
        finally:
            await stream.close()

    taken = run(first(some))
    assert [one.problem for one in taken.groups] == [0, 2, 4, 6]
    assert "the environment raised 1" in taken.failures
    with pytest.raises(EnvironmentFailed, match="nothing but errors"):
        run(first(none))


@pytest.mark.parametrize("kind", [Episodes, Stream])
def test_more_problems_are_played_where_too_few_teach(kind: type[Episodes] | type[Stream]) -> None:
    """Dynamic sampling: only every third problem has different rewards; at most twice the problems are played."""

    async def play(index: int, policy: Policy) -> Group:
        return group(index, policy.version, (0.0, 1.0) if index % 3 == 0 else (1.0, 1.0))

    async def first(wanted: int) -> list[int]:
        experiment = Experiment(mode="async", problems=wanted, samples=2, algorithm=Dapo(name="dapo", resample=2.0))
        source = kind(experiment, play, Version(1), {})
        try:
            return [one.problem for one in (await source.take()).groups]
        finally:
            await source.close()

    assert run(first(1)) == [0]
    assert run(first(3)) == list(range(6))


def test_examples_come_once_an_epoch_in_another_order_and_go_on_where_they_were() -> None:
    experiment = Experiment(problems=4, algorithm=Sft(name="sft"), data=DataSettings(path="none.jsonl"))
    examples = list("abcdefghij")

    async def taken(source: FileExamples, steps: int) -> list[str]:
        return [one for _ in range(steps) for one in (await source.take()).material]

    whole = run(taken(FileExamples(experiment, examples, {}), 10))
    epochs = [whole[at : at + 10] for at in range(0, 40, 10)]
    assert all(sorted(epoch) == examples for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4
    source = FileExamples(experiment, examples, {})
    first = run(taken(source, 3))
    assert first + run(taken(FileExamples(experiment, examples, source.position()), 7)) == whole
    other = FileExamples(experiment.model_copy(update={"seed": 1}), examples, {})
    assert run(taken(other, 10)) != whole
