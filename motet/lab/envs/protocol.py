"""The environment protocol and the words for what happened: one page.

An environment is one episode, used once. It gives the policy tokens to read (a Cue), is handed what the
policy wrote (a Written), and answers with the next Cue or with the End. What was read and what was written
are kept apart token by token from the start, so the loss mask is never guessed afterwards.

    cue = await env.start()
    while not isinstance(cue, End):
        cue = await env.step(<what the policy writes after cue.tokens>)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Cue:
    """What the policy reads next, and the bounds on what it then writes. Set by the environment."""

    tokens: list[int]  # the new ones only: the prompt at first, later inserted results
    max_tokens: int
    stop: Sequence[str] = ()  # strings that end the turn; empty: the model's end tokens
    reward: float = 0.0  # what the turn before it earned
    hint: Sequence[int] = ()  # of the first cue: what a teacher may read in its place, such as the solution


@dataclass(frozen=True)
class Written:
    """What the policy wrote in one turn. Set by the rollout."""

    tokens: list[int]
    logprobs: list[float]  # of the sampling policy, one a token
    text: str
    stopped: bool  # it came to a stop; False: cut at max_tokens


@dataclass(frozen=True)
class End:
    """The episode is over. Set by the environment."""

    reward: float  # of the last turn, and of the whole where turns earn nothing of their own
    outcome: str  # a word or two, for people and for counting: "right", "wrong", "truncated", ...


class Environment(Protocol):
    """One episode. Each method may take its time; an exception fails this episode alone."""

    async def start(self) -> Cue: ...

    async def step(self, written: Written) -> Cue | End: ...


@dataclass(frozen=True)
class Turn:
    """What was read, then what was written, and what that earned before the end. Set by the rollout."""

    read: list[int]
    written: Written
    reward: float = 0.0


@dataclass(frozen=True)
class Trajectory:
    """One whole episode. `tokens`, `mask` and `logprobs` have one entry for every token, read or written."""

    turns: list[Turn]
    end: End
    version: int = 0  # of the policy that wrote it all
    hint: Sequence[int] = ()  # what a teacher may read in place of the first turn's

    @property
    def reward(self) -> float:
        """Of the whole episode."""
        return self.end.reward + sum(turn.reward for turn in self.turns)

    @property
    def tokens(self) -> list[int]:
        return [token for turn in self.turns for token in (*turn.read, *turn.written.tokens)]

    @property
    def mask(self) -> list[bool]:
        """True exactly where the policy wrote the token."""
        return [
            written for turn in self.turns for written in [False] * len(turn.read) + [True] * len(turn.written.tokens)
        ]

    @property
    def logprobs(self) -> list[float]:
        """Of the sampling policy; 0 where the token was read."""
        return [lp for turn in self.turns for lp in [0.0] * len(turn.read) + turn.written.logprobs]

    @property
    def written_count(self) -> int:
        return sum(len(turn.written.tokens) for turn in self.turns)


@dataclass(frozen=True)
class Group:
    """G episodes of one problem. Episodes whose environment raised are in `failures`, as text."""

    problem: int
    trajectories: list[Trajectory]
    failures: list[str] = field(default_factory=list)

    @property
    def rewards(self) -> list[float]:
        return [one.reward for one in self.trajectories]


class Tasks(Protocol):
    """Where episodes come from. The same index always gives the same problem."""

    def train(self, index: int) -> Environment: ...

    def held_out(self, index: int) -> Environment: ...
