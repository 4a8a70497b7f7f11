"""The local backend: one base model on one device, shared by sampler and trainer.

Sampler and trainer never see each other: an adapter goes from the one to the other here, in `publish`.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack
from pathlib import Path

import torch

from motet.engine.adapters.journal import read_gradient, remove_gradient, write_gradient
from motet.engine.adapters.peft import load_peft, save_peft
from motet.engine.adapters.run import Run, Version
from motet.engine.adapters.snapshot import check_fits, copy_run, load_snapshot, save_snapshot
from motet.engine.adapters.store import AdapterStore
from motet.engine.backends.base import SampleOrder, TrainPart
from motet.engine.models.decoder import Decoder
from motet.engine.sampler.orders import check_prompt, check_query, check_told, group_result
from motet.engine.sampler.prompt import PromptReport
from motet.engine.sampler.sampler import Sampler
from motet.engine.sampler.sequence import Group
from motet.engine.trainer.checks import check_adam, check_data
from motet.engine.trainer.head import PieceResult
from motet.engine.trainer.optimizer import adamw_step, gradient_norm
from motet.engine.trainer.packing import Piece, cut_pieces
from motet.engine.trainer.results import merge_results
from motet.engine.trainer.trainer import PassPart, Trainer
from motet.engine.turns.accounts import Account
from motet.engine.types import (
    AdamW,
    AdapterShape,
    BaseInfo,
    Datum,
    FreshAdapter,
    JournaledStep,
    Lane,
    Loss,
    Payer,
    PublishResult,
    RunState,
    SampleResult,
    SavedRun,
    StepResult,
    TrainResult,
)
from motet.errors import EngineFault, NotFinite


class LocalBackend:
    """See `base.Backend`; the methods stand in its order."""

    def __init__(
        self,
        info: BaseInfo,
        decoder: Decoder,
        store: AdapterStore,
        sampler: Sampler,
        trainer: Trainer,
        lane_cores: dict[str, list[int]],
        pass_rows: int,
    ) -> None:
        self.info = info
        self._decoder = decoder
        self._store = store
        self._sampler = sampler
        self._trainer = trainer
        self._lane_cores = lane_cores
        self._pass_rows = pass_rows
        self._groups: dict[Future[SampleResult], Group] = {}
        self._publish_seconds = 0.0

    def attach(self, wake: Callable[[], None]) -> None:
        self._store.residency.on_ready = wake

    def enter_lane(self, lane: Lane) -> None:
        cores = self._lane_cores[lane]
        torch.set_num_threads(len(cores))
        os.sched_setaffinity(0, cores)

    # training -------------------------------------------------------------------------------------------------

    def create_run(self, run: str, shape: AdapterShape, seed: int) -> None:
        self._store.create_run(run, shape, seed)

    def run_ready(self, run: str) -> bool:
        return self._store.run_ready(run)

    def cut(self, run: str, data: tuple[Datum, ...], loss: Loss) -> list[Piece]:
        self._store.run(run)
        check_data(data, loss, self.info.vocabulary, self.info.context)
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
            published = self._store.publish(state, version)
        return self._told(published, began)

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

    def save_version(self, version: str, folder: Path) -> None:
        held = self._store.acquire(version)
        try:
            self._store.wait_for(held)
            save_peft(folder, held.layout, held.flat.float(), self.info.name)
        finally:
            self._store.release(held)

    def load_version(self, version: str, folder: Path, number: int) -> PublishResult:
        began = time.perf_counter()
        loaded = load_peft(folder, self._store.layout)
        flat = loaded.flat.to(self._decoder.dtype)
        return self._told(self._store.add_version(version, number, loaded.layout, flat), began)

    # sampling -------------------------------------------------------------------------------------------------

    def begin_sample(self, order: SampleOrder) -> None:
        info = self.info
        check_prompt(order.prompt, order.params, order.num_samples, info.vocabulary, info.context)
        check_query(order.query, len(order.prompt), info.vocabulary)
        check_told("likeliest", order.top_sample_logprobs)
        with ExitStack() as undo:
            version = None if order.version is None else self._store.acquire(order.version)
            undo.callback(self._let_go, version)
            group = self._group(order, version)
            self._sampler.scheduler.add(group)
            self._groups[order.done] = group
            undo.pop_all()

    def _group(self, order: SampleOrder, version: Version | None) -> Group:
        params, info = order.params, self.info
        room = info.context - len(order.prompt)
        seed = secrets.randbits(63) if params.seed is None else params.seed
        return Group(
            prompt=order.prompt,
            params=params,
            seed=seed,
            num_samples=order.num_samples,
            max_tokens=room if params.max_tokens is None else min(params.max_tokens, room),
            stop_tokens=frozenset(info.end_tokens if params.stop_tokens is None else params.stop_tokens),
            stop_bytes=tuple(stop.encode() for stop in params.stop_strings),
            version=version,
            report=PromptReport(order.query, order.prompt, params.temperature, seed, info.vocabulary),
            top_sample=order.top_sample_logprobs,
            on_done=lambda group: self._sampled(group, order.done),
            payer=Payer(None if version is None else version.run, order.share),
        )

    def sample_step(self) -> dict[Account, int]:
        return self._sampler.step()

    def cancel_sample(self, done: Future[SampleResult]) -> None:
        group = self._groups.get(done)
        if group is not None:
            group.cancelled = True

    def _sampled(self, group: Group, done: Future[SampleResult]) -> None:
        del self._groups[done]
        self._let_go(group.version)
        if group.cancelled:
            done.cancel()
            return
        try:
            if group.fault is not None:
                done.set_exception(group.fault)
            else:
                done.set_result(group_result(group))
        except InvalidStateError:
            assert done.cancelled()

    def _let_go(self, version: Version | None) -> None:
        if version is not None and self._store.release(version):
            self._sampler.scheduler.forget_owner(version.key)

    # anybody --------------------------------------------------------------------------------------------------

    def drop_version(self, version: str) -> None:
        self._store.drop_version(version)

    def stats(self) -> dict[str, float]:
        counts = self._sampler.counts
        return {
            **self._store.counts(),
            **self._sampler.scheduler.sizes(),
            "sample_steps": counts.steps,
            "decoded_tokens": counts.decoded_tokens,
            "prompt_tokens": counts.prompt_tokens,
            "publish_seconds": self._publish_seconds,
        }

    def close(self) -> None:
        self._store.close()

    def _begin(self, run: str, origin: FreshAdapter | SavedRun) -> Run:
        if isinstance(origin, FreshAdapter):
            return self._store.create_run(run, origin.shape, origin.seed)
        folder = Path(origin.folder)
        snapshot = load_snapshot(folder)
        layout = self._store.layout(snapshot.shape)
        check_fits(snapshot, layout, folder)
        kept = snapshot if origin.optimizer else snapshot.weights_alone()
        return self._store.add_run(run, layout, kept.tensors, kept.step)

    def _told(self, version: Version, began: float) -> PublishResult:
        seconds = time.perf_counter() - began
        self._publish_seconds += seconds
        return PublishResult(version.name, version.number, version.content_hash, seconds)
