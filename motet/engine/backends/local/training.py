"""The local backend's training side: runs in memory, mixed in one pass over the base model."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from motet.engine.adapters.journal import read_gradient, remove_gradient, write_gradient
from motet.engine.adapters.run import Run
from motet.engine.adapters.snapshot import check_fits, copy_run, load_snapshot, save_snapshot
from motet.engine.adapters.store import AdapterStore
from motet.engine.backends.base import TrainPart
from motet.engine.backends.local.versions import told
from motet.engine.trainer.checks import check_adam, check_data
from motet.engine.trainer.head import PieceResult
from motet.engine.trainer.optimizer import adamw_step, gradient_norm
from motet.engine.trainer.packing import Piece, cut_pieces
from motet.engine.trainer.results import merge_results
from motet.engine.trainer.trainer import PassPart, Trainer
from motet.engine.types import (
    AdamW,
    AdapterShape,
    BaseInfo,
    Datum,
    FreshAdapter,
    JournaledStep,
    Loss,
    PublishResult,
    RunState,
    SavedRun,
    StepResult,
    TrainResult,
)
from motet.errors import EngineFault, NotFinite


class LocalTraining:
    """See `base.Training`; the methods stand in its order."""

    def __init__(self, info: BaseInfo, store: AdapterStore, trainer: Trainer, pass_rows: int) -> None:
        self._info = info
        self._store = store
        self._trainer = trainer
        self._pass_rows = pass_rows
        self._publish_seconds = 0.0

    def create_run(self, run: str, shape: AdapterShape, seed: int) -> None:
        self._store.create_run(run, shape, seed)

    def run_ready(self, run: str) -> bool:
        return self._store.run_ready(run)

    def cut(self, run: str, data: tuple[Datum, ...], loss: Loss) -> list[Piece]:
        self._store.run(run)
        check_data(data, loss, self._info.vocabulary, self._info.context)
        return cut_pieces(data, self._pass_rows)

    def train(self, parts: list[TrainPart], backward: bool) -> list[PieceResult | EngineFault]:
        with ExitStack() as held:
            runs = {name: self._held(name, held) for name in dict.fromkeys(part.run for part in parts)}
            here = {name: run for name, run in runs.items() if isinstance(run, Run)}
            work = [PassPart(part.piece, here[part.run].adapter, part.loss) for part in parts if part.run in here]
            results = iter(self._trainer.run(work, backward) if work else ())
            for run in here.values():
                run.has_gradient = run.has_gradient or backward
        lost = {name: fault for name, fault in runs.items() if isinstance(fault, EngineFault)}
        return [lost[part.run] if part.run in lost else next(results) for part in parts]

    def _held(self, name: str, held: ExitStack) -> Run | EngineFault:
        """A run in memory for as long as `held` is open; where it was lost, why."""
        try:
            run = self._store.run(name)
            held.enter_context(self._store.training([run]))
        except EngineFault as fault:
            return fault
        return run

    def merge(self, results: list[PieceResult]) -> TrainResult:
        return merge_results(results)

    def optim_step(self, run: str, adam: AdamW, journaled: Path | None = None) -> StepResult:
        check_adam(adam)
        state = self._store.run(run)
        with self._store.training([state]):
            try:
                return StepResult(adamw_step(state, adam), state.step)
            except NotFinite:
                if journaled is not None:
                    remove_gradient(journaled)
                raise

    def publish(self, run: str, version: str) -> PublishResult:
        began = time.perf_counter()
        state = self._store.run(run)
        with self._store.training([state]):
            published = told(self._store.publish(state, version), began)
        self._publish_seconds += published.seconds
        return published

    def drop_run(self, run: str) -> None:
        self._store.drop_run(run)

    # files ----------------------------------------------------------------------------------------------------

    def journal_step(self, run: str, adam: AdamW, file: Path) -> None:
        check_adam(adam)
        state = self._store.run(run)
        with self._store.training([state]):
            gradient_norm(state)
            write_gradient(file, state)

    def copy_run(self, run: str, folder: Path) -> Callable[[], None]:
        state = self._store.run(run)
        with self._store.training([state]):
            snapshot = copy_run(state)
        return lambda: save_snapshot(folder, snapshot)

    def load_run(self, run: str, folder: Path, optimizer: bool) -> AdapterShape:
        return self._begin(run, SavedRun(str(folder), optimizer)).layout.shape

    def restore_run(
        self, run: str, origin: FreshAdapter | SavedRun, steps: tuple[JournaledStep, ...], published: int
    ) -> RunState:
        state = self._begin(run, origin)
        with ExitStack() as undo:
            undo.callback(self._store.drop_run, run)
            with self._store.training([state]):
                for step in steps:
                    state.set_gradient(read_gradient(Path(step.file), state.layout))
                    adamw_step(state, step.adam)
                state.published = published
            undo.pop_all()
        return RunState(state.layout.shape, state.step, state.has_gradient)

    # anybody --------------------------------------------------------------------------------------------------

    def sizes(self) -> dict[str, float]:
        return {**self._store.counts(), "publish_seconds": self._publish_seconds}

    def close(self) -> None:
        """Its runs go with the store."""

    def _begin(self, run: str, origin: FreshAdapter | SavedRun) -> Run:
        if isinstance(origin, FreshAdapter):
            return self._store.create_run(run, origin.shape, origin.seed)
        folder = Path(origin.folder)
        snapshot = load_snapshot(folder)
        layout = self._store.layout(snapshot.shape)
        check_fits(snapshot, layout, folder)
        kept = snapshot if origin.optimizer else snapshot.weights_alone()
        return self._store.add_run(run, layout, kept.tensors, kept.step)
