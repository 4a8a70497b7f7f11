"""A stream of episodes: groups are always being played, and a step takes the first that are done."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from motet.lab.envs.protocol import Group
from motet.lab.envs.rollout import EnvironmentFailed, Policy
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.sources import Gathered, Play, Position


@dataclass(eq=False)
class Playing:
    """A group on its way. It ends on the version that it began with."""

    problem: int
    version: int
    task: asyncio.Future[Group]
    overtaken: int = 0  # by groups that began later and are done


class Stream:
    """Groups for steps that never wait for a slow one.

    A step at version v takes groups of versions v - `max_staleness` and newer; what is older by then is dropped and
    counted, and no longer played. Under way, done or being learned from are at most `problems * (max_staleness + 1)`
    groups, so that what is not slow is within the bound (Fu et al. 2025, AReaL, arXiv:2505.24298, equation 3). A group
    that a whole step's worth of later ones has overtaken is of the long tail and holds no place among these.
    """

    def __init__(self, experiment: Experiment, play: Play, policy: Policy, at: Position) -> None:
        self._experiment = experiment
        self._most_taken = experiment.algorithm.most_groups(experiment.problems)
        self._most = self._most_taken + experiment.problems * experiment.max_staleness
        self._play = play
        self._policy = policy
        self._next = int(at.get("next", 0))
        self._again = list(at.get("under_way", []))  # problems of an earlier life
        self._playing: list[Playing] = []  # in the order of their beginning
        self._done: list[Group] = []
        self._learned_from = 0  # groups, until there is a version that has learned from them

    async def take(self) -> Gathered:
        dropped, failures, self._learned_from = self._drop(), list[str](), 0
        while (taken := self._first()) is None:
            self._fill()
            failures += await self._wait(len(failures))
        del self._done[: len(taken)]
        self._learned_from = len(taken)
        return Gathered(taken, taken, [*failures, *(told for group in taken for told in group.failures)], dropped)

    def renew(self, policy: Policy) -> None:
        self._policy, self._learned_from = policy, 0
        self._fill()

    def position(self) -> Position:
        under_way = [*(one.problem for one in self._playing), *(one.problem for one in self._done), *self._again]
        return {"next": self._next, "under_way": sorted(under_way)}

    async def close(self) -> None:
        for one in self._playing:
            _let_go(one.task)
        await asyncio.gather(*(one.task for one in self._playing), return_exceptions=True)

    def _drop(self) -> int:
        """How many groups no step may take any more."""
        oldest = self._policy.version - self._experiment.max_staleness
        late = [one for one in self._playing if one.version < oldest]
        fresh = [one for one in self._done if version_of(one) >= oldest]
        dropped = len(late) + len(self._done) - len(fresh)
        for one in late:
            _let_go(one.task)
            self._playing.remove(one)
        self._done = fresh
        return dropped

    def _first(self) -> list[Group] | None:
        """The first groups that make a step: as many as are wanted teach, or no more may be played for it."""
        teaching = 0
        for count, group in enumerate(self._done, 1):
            teaching += self._experiment.algorithm.teaches(group)
            if teaching == self._experiment.problems or count == self._most_taken:
                return self._done[:count]
        return None

    def _fill(self) -> None:
        in_time = [one for one in self._playing if one.overtaken < self._experiment.problems]
        for _ in range(self._most - len(in_time) - len(self._done) - self._learned_from):
            problem = self._again.pop(0) if self._again else self._next
            self._next = max(self._next, problem + 1)
            task = asyncio.ensure_future(self._play(problem, self._policy))
            self._playing.append(Playing(problem, self._policy.version, task))

    async def _wait(self, failed: int) -> list[str]:
        """Until one more has ended; what environments raised is told. Raises when that is all they ever do."""
        await asyncio.wait([one.task for one in self._playing], return_when=asyncio.FIRST_COMPLETED)
        failures = []
        for one in [one for one in self._playing if one.task.done()]:
            place = self._playing.index(one)
            for earlier in self._playing[:place]:
                earlier.overtaken += 1
            del self._playing[place]
            try:
                self._done.append(one.task.result())
            except EnvironmentFailed as error:
                failures.append(str(error))
                if not self._done and failed + len(failures) >= self._most:
                    raise
        return failures


def version_of(group: Group) -> int:
    """The oldest version that wrote in a group."""
    return min(one.version for one in group.trajectories)


def _let_go(task: asyncio.Future[Group]) -> None:
    """Nobody asks for it any more, whatever it still raises."""
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    task.cancel()
