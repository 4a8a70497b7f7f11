"""Where a step's material comes from: episodes of the newest version, or examples of a file; a stream is in `stream`.

Everything random follows from the experiment's seed and an index, and a source says where it stands in a few numbers,
so that it can go on there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from motet.lab.envs.protocol import Group, Tasks
from motet.lab.envs.rollout import Played, Policy, mix, play_group, play_groups
from motet.lab.experiments.config import Experiment

Position = dict[str, Any]  # a few numbers, as JSON
Play = Callable[[int, Policy], Awaitable[Group]]  # plays the group of an index


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


def playing(experiment: Experiment, tasks: Tasks) -> Play:
    """The groups of an environment: an index has the same problem and the same seed whenever it is played."""

    def play(index: int, policy: Policy) -> Awaitable[Group]:
        envs = [tasks.train(index) for _ in range(experiment.samples)]
        return play_group(index, envs, policy, mix(experiment.seed, index))

    return play


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
