"""Where a step's material comes from: episodes of the newest version, a stream of episodes, or examples of a file.

Everything random follows from the experiment's seed and an index, and a source says where it stands in a few numbers,
so that it can go on there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from motet.lab.envs.protocol import Group, Tasks
from motet.lab.envs.rollout import EnvironmentFailed, Played, Policy, mix, play_group, play_groups
from motet.lab.experiments.config import Experiment

Position = dict[str, Any]  # a few numbers, as JSON


@dataclass(frozen=True)
class Gathered:
    """What a step works on. groups: the episodes in it, where it has any."""

    material: Sequence[Any]
    groups: list[Group] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    dropped: int = 0  # groups that had become too stale


class Source(Protocol):
    """Gives the material of one step after the other."""

    async def take(self) -> Gathered: ...

    def renew(self, policy: Policy) -> None:
        """Whatever begins from now on is written by this version."""
        ...

    def position(self) -> Position:
        """Where it stands, after a step."""
        ...

    async def close(self) -> None: ...


class Play:
    """Plays the group of an index with a policy."""

    def __init__(self, experiment: Experiment, tasks: Tasks) -> None:
        self._experiment = experiment
        self._tasks = tasks

    async def __call__(self, index: int, policy: Policy) -> Group:
        envs = [self._tasks.train(index) for _ in range(self._experiment.samples)]
        return await play_group(index, envs, policy, mix(self._experiment.seed, index))


class Episodes:
    """Synchronous: the step's problems, all at once, by the newest version. More problems where too few teach."""

    def __init__(self, experiment: Experiment, play: Play, policy: Policy, at: Position) -> None:
        self._experiment = experiment
        self._play = play
        self._policy = policy
        self._next = int(at.get("next", 0))

    async def take(self) -> Gathered:
        wanted, algorithm = self._experiment.problems, self._experiment.algorithm
        most = algorithm.most_groups(wanted)
        played, begun = await self._round(wanted), wanted
        while (missing := wanted - sum(map(algorithm.teaches, played.groups))) > 0 and begun < most:
            more = await self._round(min(missing, most - begun))
            begun += min(missing, most - begun)
            played = Played([*played.groups, *more.groups], [*played.failures, *more.failures])
        return Gathered(played.groups, played.groups, played.failures)

    async def _round(self, count: int) -> Played:
        first, self._next = self._next, self._next + count
        return await play_groups(self._play(index, self._policy) for index in range(first, first + count))

    def renew(self, policy: Policy) -> None:
        self._policy = policy

    def position(self) -> Position:
        return {"next": self._next}

    async def close(self) -> None:
        """Nothing is under way between steps."""


class Stream:
    """Asynchronous: groups are always being played, each to its end by the version that it began with.

    A step takes the first groups that are done, so a long tail of slow ones holds nobody back. What is more than
    `max_staleness` versions old by then is dropped and counted. At most `problems * (max_staleness + 1)` groups are
    under way or done, so that whoever is not slow is within the bound (Fu et al. 2025, AReaL, arXiv:2505.24298,
    equation 3).
    """

    def __init__(self, experiment: Experiment, play: Play, policy: Policy, at: Position) -> None:
        self._wanted = experiment.problems
        self._staleness = experiment.max_staleness
        self._most = experiment.problems * (experiment.max_staleness + 1)
        self._play = play
        self._policy = policy
        self._next = int(at.get("next", 0))
        self._again = list(at.get("under_way", []))  # of an earlier life
        self._playing: dict[asyncio.Task[Group], int] = {}
        self._done: list[Group] = []

    async def take(self) -> Gathered:
        failures, dropped = list[str](), 0
        while True:
            oldest = self._policy.version - self._staleness
            fresh = [group for group in self._done if version_of(group) >= oldest]
            dropped += len(self._done) - len(fresh)
            self._done = fresh
            if len(fresh) >= self._wanted:
                taken, self._done = fresh[: self._wanted], fresh[self._wanted :]
                self._fill()
                return Gathered(taken, taken, [*failures, *(f for group in taken for f in group.failures)], dropped)
            self._fill()
            failures += await self._wait()

    def _fill(self) -> None:
        while len(self._playing) + len(self._done) < self._most:
            index = self._again.pop(0) if self._again else self._next
            self._next = max(self._next, index + 1)
            self._playing[asyncio.create_task(self._play(index, self._policy))] = index

    async def _wait(self) -> list[str]:
        """At least one more is done; what environments raised is told, unless all of them do."""
        ended, _ = await asyncio.wait(self._playing, return_when=asyncio.FIRST_COMPLETED)
        failures = []
        for task in ended:
            del self._playing[task]
            try:
                self._done.append(task.result())
            except EnvironmentFailed as error:
                failures.append(str(error))
                if not self._done and not self._playing:
                    raise
        return failures

    def renew(self, policy: Policy) -> None:
        self._policy = policy
        self._fill()

    def position(self) -> Position:
        return {"next": self._next, "under_way": sorted([*self._playing.values(), *(g.problem for g in self._done)])}

    async def close(self) -> None:
        for task in self._playing:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._playing, return_exceptions=True)


def version_of(group: Group) -> int:
    """The oldest version that wrote in a group."""
    return min(one.version for one in group.trajectories)


class FileExamples:
    """Examples of a file, each epoch in an order of its own."""

    def __init__(self, experiment: Experiment, examples: Sequence[Any], at: Position) -> None:
        self._size = min(experiment.problems, len(examples))
        self._examples = examples
        self._order: Callable[[int], list[int]] = lambda epoch: _shuffled(len(examples), experiment.seed, epoch)
        self._next = int(at.get("next", 0))

    async def take(self) -> Gathered:
        places = range(self._next, self._next + self._size)
        self._next += self._size
        count = len(self._examples)
        return Gathered([self._examples[self._order(place // count)[place % count]] for place in places])

    def renew(self, policy: Policy) -> None:
        """Nobody writes."""

    def position(self) -> Position:
        return {"next": self._next}

    async def close(self) -> None:
        """Nothing is under way."""


def _shuffled(count: int, seed: int, epoch: int) -> list[int]:
    order = list(range(count))
    Random(f"{seed}/{epoch}").shuffle(order)
    return order
