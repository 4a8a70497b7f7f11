"""What is known of an experiment while it runs: written by the loop, read by the table and the report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

State = Literal["waiting", "evaluating", "running", "done", "stopped", "failed"]


@dataclass(frozen=True)
class Accuracy:
    """Mean reward on held-out problems, one sample each, with the standard error of that mean.

    For examples of a file: the mean log-probability of a token that is to be learned, or the part of pairs in order.
    Where rewards are 0 or 1 the error is half of Wilson's interval at one standard deviation (Wilson 1927): the same
    in the middle, and not 0 where all of a few problems were solved.
    """

    mean: float
    error: float
    problems: int
    each: tuple[float | None, ...] = ()  # in the problems' order: what experiments are compared by; None: it failed

    @classmethod
    def of(cls, rewards: Sequence[float | None]) -> Accuracy:
        known = [reward for reward in rewards if reward is not None]
        mean, count = float(np.mean(known)), len(known)
        error = _wilson(mean, count) if set(known) <= {0.0, 1.0} else float(np.std(known) / np.sqrt(count))
        return cls(mean, error, count, tuple(rewards))

    def __str__(self) -> str:
        """A part of all in percent; what is no part, such as a log-probability, as it is."""
        if 0 <= self.mean <= 1:
            return f"{100 * self.mean:.1f} ± {100 * self.error:.1f} %"
        return f"{self.mean:.3f} ± {self.error:.3f}"


def _wilson(part: float, count: int) -> float:
    """Half of the score interval's width, z = 1."""
    return float(np.sqrt(part * (1 - part) / count + 1 / (4 * count**2)) / (1 + 1 / count))


@dataclass
class Seconds:
    """Where a step's time went, as the client saw it.

    waiting is the part of training that the server says it did not work on this request; 0 where the
    server does not say.
    """

    sampling: float = 0.0
    training: float = 0.0
    publishing: float = 0.0
    waiting: float = 0.0

    @property
    def total(self) -> float:
        return self.sampling + self.training + self.publishing + self.waiting


@dataclass(frozen=True)
class Finding:
    """Something is wrong. One line: what, since which step, and what to try."""

    name: str  # for `stop_on` and for counting
    what: str
    since: int  # step; 0: before the first
    advice: str

    @property
    def line(self) -> str:
        since = f" (since step {self.since})" if self.since else ""
        return f"{self.what}{since}: {self.advice}"


@dataclass(frozen=True)
class StepMetrics:
    """One line of metrics.jsonl."""

    step: int  # from 1
    reward: float  # mean over all episodes of the step
    outcomes: dict[str, int]
    groups: int
    groups_left_out: int  # all rewards equal: nothing to learn from
    failed_episodes: int
    tokens: int  # written by the policy
    tokens_per_second: float  # of the sampling time
    seconds: Seconds
    version: int  # that sampled this step; 1 is the fresh adapter
    loss: float | None  # None: nothing was trained on
    grad_norm: float | None
    mismatch_mean: float | None  # |trainer - sampler| log-probability over trained tokens
    mismatch_max: float | None
    learning_rate: float = 0.0
    entropy: float | None = None  # -log q of a written token, on average: an estimate of the policy's entropy
    empty: int = 0  # episodes in which the policy wrote nothing but an end
    calls: int = 0  # turns with a tool call in JSON
    torn_calls: int = 0  # turns with the mark of one, which could not be read
    dropped: int = 0  # groups that had become too stale
    staleness: int = 0  # versions, of the oldest episode
    trained_tokens: int = 0  # with a weight or an advantage
    refused: str = ""  # why the server took no optimizer step
    algorithm: dict[str, float] = field(default_factory=dict)  # what it says of itself
    findings: list[Finding] = field(default_factory=list)


@dataclass
class Progress:
    """One experiment's row."""

    name: str
    steps: int
    state: State = "waiting"
    history: list[StepMetrics] = field(default_factory=list)
    start: Accuracy | None = None
    end: Accuracy | None = None
    noted: list[Finding] = field(default_factory=list)  # before the first step
    error: str = ""
    began: float | None = None  # time.monotonic()
    trained: float | None = None  # when the last step was over
    ended: float | None = None

    def enter(self, state: State) -> None:
        """Note a new state and its time."""
        self.state = state
        if self.began is None:
            self.began = time.monotonic()
        if state in ("done", "stopped", "failed"):
            self.ended = time.monotonic()

    @property
    def last(self) -> StepMetrics | None:
        return self.history[-1] if self.history else None

    @property
    def rewards(self) -> list[float]:
        return [one.reward for one in self.history]

    @property
    def step_seconds(self) -> float | None:
        """Mean time of a step."""
        return float(np.mean([one.seconds.total for one in self.history])) if self.history else None

    @property
    def elapsed(self) -> float | None:
        """Seconds from its first state to its end, or until now."""
        return None if self.began is None else (self.ended or time.monotonic()) - self.began
