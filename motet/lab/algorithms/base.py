"""What an algorithm is: what was gathered for a step goes in, the datums of that step come out.

An algorithm is its own settings (a section of the experiment file). It never talks to a server: what it needs
to know of other models' opinion it asks of the `Scorers` that the loop hands it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import tinker
from tinker.types import LossFnType

Material = TypeVar("Material", contravariant=True)  # groups of episodes, or examples from a file

# Datums and their target log-probabilities (torch tensors that want a gradient) -> the loss and what to report:
# what `TrainingClient.forward_backward_custom` takes.
CustomLoss = Callable[..., tuple[object, dict[str, float]]]


class Scorer(Protocol):
    """The log-probabilities that one fixed model gives to tokens that somebody else wrote."""

    async def logprobs(self, tokens: Sequence[int]) -> list[float]:
        """One a token; 0 for the first, which nothing precedes."""
        ...


@dataclass(frozen=True)
class Scorers:
    """The models an algorithm may ask. Set by the loop."""

    base: Scorer  # the base model, without any adapter
    current: Scorer  # the newest published version of the run
    version: int  # its number: trajectories of an older one are stale
    teacher: Scorer | None = None  # of a distillation


@dataclass(frozen=True)
class Batch:
    """What one step trains on. An empty `data` is a step with nothing to teach."""

    data: list[tinker.Datum]
    loss: LossFnType
    loss_config: dict[str, float] = field(default_factory=dict)
    left_out: int = 0  # groups that had nothing to teach
    custom: CustomLoss | None = None  # stands in for `loss`
    metrics: dict[str, float] = field(default_factory=dict)  # of the algorithm's own, for the record


class Algorithm(Protocol[Material]):
    """Turns a step's material into a step's batch."""

    async def batch(self, material: Material, scorers: Scorers) -> Batch: ...
