"""What the core asks of a backend. The core knows runs, queues and lanes; a backend knows tensors and devices.

A backend has two sides that never see each other, and the versions that go from the one to the other. Two lanes call
it, each from a thread of its own: the training lane alone calls `Training`, but for its methods under *files*, which
threads for files call while no lane has work for the run that they name; the sampling lane alone calls `Sampling`.
`Versions`, `sizes` and `close` are anybody's.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from motet.engine.trainer.head import PieceResult
from motet.engine.trainer.packing import Piece
from motet.engine.turns.accounts import Account
from motet.engine.types import (
    AdamW,
    AdapterShape,
    BaseInfo,
    Datum,
    FreshAdapter,
    IntArray,
    JournaledStep,
    Lane,
    Loss,
    Payer,
    PromptQuery,
    PublishResult,
    RunState,
    SamplePart,
    SampleResult,
    SamplingParams,
    SavedRun,
    StepResult,
    TrainResult,
)
from motet.errors import EngineFault

__all__ = ["Backend", "Piece", "PieceResult", "SampleOrder", "Sampling", "TrainPart", "Training", "Versions"]


OnPart = Callable[[SamplePart], None]  # hears of each token as it is drawn, from the sampling lane


@dataclass(frozen=True)
class TrainPart:
    """One piece in a pass: of which run, under which loss."""

    run: str
    piece: Piece
    loss: Loss


@dataclass(frozen=True)
class SampleOrder:
    """A sampling request as the backend takes it, with where its result goes."""

    version: str | None
    prompt: IntArray
    params: SamplingParams
    num_samples: int
    query: PromptQuery
    top_sample_logprobs: int
    payer: Payer  # without the run of its version, which is the backend's to know
    done: Future[SampleResult]
    on_part: OnPart | None = None


class Training(Protocol):
    """Runs: what is learned."""

    def create_run(self, run: str, shape: AdapterShape, seed: int) -> None: ...

    def run_ready(self, run: str) -> bool:
        """Is the run in memory? Where not, it is on its way, and the core is woken when it is."""
        ...

    def cut(self, run: str, data: tuple[Datum, ...], loss: Loss) -> list[Piece]:
        """Check a request and cut it into pieces. BadRequest, NotFound."""
        ...

    def train(self, parts: list[TrainPart], backward: bool) -> list[PieceResult | EngineFault]:
        """One pass over pieces of many runs; parts of one run follow each other. A part of a lost run has its fault."""
        ...

    def merge(self, results: list[PieceResult]) -> TrainResult:
        """From the results of all pieces of a request, in order, to its own."""
        ...

    def optim_step(self, run: str, adam: AdamW, journaled: Path | None = None) -> StepResult:
        """Taken whole, or not at all. NotFinite: it was not, the gradient is cleared and its file is removed."""
        ...

    def publish(self, run: str, version: str) -> PublishResult: ...

    def drop_run(self, run: str) -> None: ...

    # files ---------------------------------------------------------------------------------------------------
    def journal_step(self, run: str, adam: AdamW, file: Path) -> None:
        """Write the gradient that the step will be taken on. BadRequest, NotFinite, EngineFault: the disk's."""
        ...

    def copy_run(self, run: str, folder: Path) -> Callable[[], None]:
        """Copy a run's state; what it gives writes the copy, and raises EngineFault where the disk does not have it."""
        ...

    def load_run(self, run: str, folder: Path, optimizer: bool) -> AdapterShape: ...

    def restore_run(
        self, run: str, origin: FreshAdapter | SavedRun, steps: tuple[JournaledStep, ...], published: int
    ) -> RunState: ...

    # anybody --------------------------------------------------------------------------------------------------
    def sizes(self) -> dict[str, float]:
        """Counters and gauges for people."""
        ...

    def close(self) -> None: ...


class Sampling(Protocol):
    """Versions at work: what is drawn."""

    def begin(self, order: SampleOrder) -> None:
        """File a request; its future is resolved by a later step. BadRequest, NotFound, Busy."""
        ...

    def step(self) -> dict[Account, int]:
        """One step over the live sequences whose turn it is: the rows of each account in it. None: nothing to do."""
        ...

    def cancel(self, done: Future[SampleResult]) -> None: ...

    # anybody --------------------------------------------------------------------------------------------------
    def sizes(self) -> dict[str, float]:
        """Counters and gauges for people."""
        ...

    def close(self) -> None: ...


class Versions(Protocol):
    """Versions as folders, in and out."""

    def save(self, version: str, folder: Path) -> None: ...

    def load(self, version: str, folder: Path, number: int, run: str | None = None) -> PublishResult: ...

    def drop(self, version: str) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Backend:
    """Both sides, and what goes between them.

    attach: called once, before the lanes start, with what wakes the core when something is in memory now.
    enter_lane: called once by each lane's thread before anything else; it takes the cores that are its own.
    """

    info: BaseInfo
    training: Training
    sampling: Sampling
    versions: Versions
    attach: Callable[[Callable[[], None]], None]
    enter_lane: Callable[[Lane], None]

    def sizes(self) -> dict[str, float]:
        """Counters and gauges of both sides."""
        return {**self.training.sizes(), **self.sampling.sizes()}

    def close(self) -> None:
        """Both sides first: they hold versions."""
        self.sampling.close()
        self.training.close()
        self.versions.close()
