"""What may be asked of the engine, and what each request gives. Ids are the caller's; the engine keeps them.

A request that names a run is filed in that run's queue and done in the order of arrival; between runs, and
for requests that name none, the engine is free.
"""

from __future__ import annotations

from dataclasses import dataclass

from motet.engine.types import AdamW, AdapterShape, Datum, IntArray, Loss, SamplingParams


@dataclass(frozen=True)
class CreateRun:
    """A new run with fresh weights. Gives None. BadRequest: rank out of bounds, name taken."""

    run: str
    shape: AdapterShape
    seed: int


@dataclass(frozen=True)
class ForwardBackward:
    """Log-probabilities and loss; with `backward` the gradient is added to the run's. Gives TrainResult."""

    run: str
    data: tuple[Datum, ...]
    loss: Loss
    backward: bool = True


@dataclass(frozen=True)
class OptimStep:
    """One AdamW step on the accumulated gradient, which it clears. Gives StepResult."""

    run: str
    adam: AdamW


@dataclass(frozen=True)
class Publish:
    """Turn the run's weights into a version named `version`, in memory. Gives PublishResult.

    Without `keep` it may go once eight newer ones of its run stand.
    """

    run: str
    version: str
    keep: bool = True


@dataclass(frozen=True)
class SaveRun:
    """Write weights (and optimizer state) to a new folder, whole or not at all. Gives None."""

    run: str
    folder: str


@dataclass(frozen=True)
class LoadRun:
    """A new run from a folder that SaveRun wrote. Gives AdapterShape. NotFound: no such folder."""

    run: str
    folder: str
    optimizer: bool


@dataclass(frozen=True)
class SaveVersion:
    """Write a version as a PEFT folder. Gives None."""

    version: str
    folder: str


@dataclass(frozen=True)
class LoadVersion:
    """A version from a PEFT folder. Gives PublishResult."""

    version: str
    folder: str


@dataclass(frozen=True)
class DropRun:
    """Forget a run and free its memory; its versions stay. Gives None."""

    run: str


@dataclass(frozen=True)
class DropVersion:
    """Forget a version once nobody samples from it. Gives None."""

    version: str


@dataclass(frozen=True)
class Sample:
    """Draw `num_samples` continuations of one prompt. Gives SampleResult."""

    version: str | None  # None: the plain base model
    prompt: IntArray  # T
    params: SamplingParams
    num_samples: int = 1
    prompt_logprobs: bool = False
    top_prompt_logprobs: int = 0
    top_sample_logprobs: int = 0


@dataclass(frozen=True)
class Stats:
    """Counters and gauges of the engine. Gives dict[str, float]."""


TrainRequest = CreateRun | ForwardBackward | OptimStep | Publish | SaveRun | LoadRun | DropRun
Request = TrainRequest | SaveVersion | LoadVersion | DropVersion | Sample | Stats
