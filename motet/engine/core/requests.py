"""What may be asked of the engine, and what each request gives. Ids are the caller's; the engine keeps them.

A request that names a run is filed in that run's queue and done in the order of arrival; between runs, and
for requests that name none, the engine is free.
"""

from __future__ import annotations

from dataclasses import dataclass

from motet.engine.types import (
    AdamW,
    AdapterShape,
    Claim,
    Datum,
    FreshAdapter,
    IntArray,
    JournaledStep,
    Loss,
    PromptQuery,
    SamplingParams,
    SavedRun,
)


@dataclass(frozen=True)
class CreateRun:
    """A new run with fresh weights. Gives None. BadRequest: rank out of bounds, name taken."""

    run: str
    shape: AdapterShape
    seed: int
    claim: Claim = Claim()


@dataclass(frozen=True)
class ForwardBackward:
    """Log-probabilities and loss; with `backward` the gradient is added to the run's. Gives TrainResult."""

    run: str
    data: tuple[Datum, ...]
    loss: Loss
    backward: bool = True


@dataclass(frozen=True)
class OptimStep:
    """One AdamW step on the accumulated gradient, which it clears. Gives StepResult.

    With `journal` the step is taken once the gradient, before clipping, stands in that file. EngineFault: it could not
    be written; nothing has changed. NotFinite: the step was not taken, the gradient is cleared, there is no file.
    """

    run: str
    adam: AdamW
    journal: str | None = None


@dataclass(frozen=True)
class Publish:
    """Turn the run's weights into a version named `version`, in memory. Gives PublishResult."""

    run: str
    version: str


@dataclass(frozen=True)
class SaveRun:
    """Write weights and optimizer state, a gradient that accumulates too, to a new folder, whole or not at all.

    Gives None. The run goes on as soon as its state is copied. EngineFault: the disk would not have it.
    """

    run: str
    folder: str


@dataclass(frozen=True)
class LoadRun:
    """A new run from a folder that SaveRun wrote. Gives AdapterShape. NotFound: no such folder."""

    run: str
    folder: str
    optimizer: bool
    claim: Claim = Claim()


@dataclass(frozen=True)
class RestoreRun:
    """A run as it was: from its origin, the journaled steps taken again in order. Gives RunState.

    NotFound: no such folder. EngineFault: a file is torn, missing or of another shape. Then no run is made.
    """

    run: str
    origin: FreshAdapter | SavedRun
    steps: tuple[JournaledStep, ...] = ()
    published: int = 0  # versions so far: the next one has the number after it
    claim: Claim = Claim()


@dataclass(frozen=True)
class SaveVersion:
    """Write a version as a PEFT folder. Gives None. EngineFault: the disk would not have it."""

    version: str
    folder: str


@dataclass(frozen=True)
class LoadVersion:
    """A version from a PEFT folder. Gives PublishResult, with the content hash that it was published under."""

    version: str
    folder: str
    number: int = 1  # its number within its run
    run: str | None = None  # that published it, and pays for what is drawn from it


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
    query: PromptQuery = PromptQuery()
    top_sample_logprobs: int = 0
    share: str | None = None  # who pays where the version's run is not there to
    serving: bool = False  # somebody waits for it: the share pays, and it comes first


@dataclass(frozen=True)
class Stats:
    """Counters and gauges of the engine. Gives dict[str, float]."""


NewRun = CreateRun | LoadRun | RestoreRun
TrainRequest = NewRun | ForwardBackward | OptimStep | Publish | SaveRun | DropRun
Request = TrainRequest | SaveVersion | LoadVersion | DropVersion | Sample | Stats
