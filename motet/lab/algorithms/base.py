"""What an algorithm is: what was gathered for a step goes in, the datums of that step come out.

An algorithm is its own settings (a section of the experiment file). It never talks to a server: what it needs
to know of other models' opinion it asks of the `Scorers` that the loop hands it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
import tinker
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from tinker.types import LossFnType

from motet.lab.envs.protocol import Group

Array = NDArray[np.float64]
Takes = Literal["episodes", "conversations", "pairs", "judged"]
Material = TypeVar("Material", contravariant=True)  # groups of episodes, or examples from a file

# Datums and their targets' log-probabilities (torch tensors that want a gradient) -> the loss and what to report:
# what `TrainingClient.forward_backward_custom` takes.
CustomLoss = Callable[..., tuple[object, dict[str, float]]]


class Scorer(Protocol):
    """The log-probabilities that one model gives to tokens that somebody else wrote."""

    async def logprobs(self, tokens: Sequence[int]) -> list[float]:
        """One a token; 0 for the first, which nothing precedes."""
        ...


@dataclass(frozen=True)
class Scorers:
    """The models an algorithm may ask. Set by the loop."""

    base: Scorer  # the base model, without any adapter
    current: Scorer  # the newest published version of the run, as the sampler sees it
    trainer: Scorer  # the same weights, as the trainer sees them
    version: int  # of the newest: trajectories of an older one are stale
    temperature: float = 1.0  # that episodes are sampled at; log-probabilities of scorers are always those at 1
    teacher: Scorer | None = None  # of a distillation; what only it reads, it reads by itself


@dataclass(frozen=True, eq=False)
class Lesson:
    """One datum, and what the newest version gave its targets when the datum was made: for measuring the mismatch."""

    datum: tinker.Datum
    present: Array | None = None  # T-1


@dataclass(frozen=True)
class Batch:
    """What one step trains on. Without lessons a step has nothing to teach."""

    lessons: list[Lesson]
    loss: LossFnType
    loss_config: dict[str, float] = field(default_factory=dict)
    left_out: int = 0  # groups that had nothing to teach
    custom: CustomLoss | None = None  # stands in for `loss`
    metrics: dict[str, float] = field(default_factory=dict)  # of the algorithm's own, for the record

    @property
    def data(self) -> list[tinker.Datum]:
        return [lesson.datum for lesson in self.lessons]


class Algorithm(Protocol[Material]):
    """Turns a step's material into a step's batch."""

    async def batch(self, material: Material, scorers: Scorers) -> Batch: ...


class AlgorithmSettings(BaseModel):
    """What every section [algorithm] has in common: it takes no key that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    takes: ClassVar[Takes] = "episodes"
    wants_hints: ClassVar[bool] = False  # learns from what an environment shows to a teacher

    @property
    def least_samples(self) -> int:
        """How many episodes of a problem it needs to learn anything."""
        return 1

    def teaches(self, group: Group) -> bool:
        """Has a group something to teach?"""
        return True

    def most_groups(self, problems: int) -> int:
        """How many groups a step may play, for `problems` that teach."""
        return problems

    async def batch(self, material: Any, scorers: Scorers) -> Batch:
        """See `Algorithm`."""
        raise NotImplementedError
