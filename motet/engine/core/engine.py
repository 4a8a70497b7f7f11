"""The engine: requests in, futures out, two lanes at work between.

The training lane takes one short request or one pass at a time; the sampling lane steps every live sequence. Each
lane is a thread; the floor says who has the cores. An error that nobody foresaw fails one request alone where it has
not touched what others share (see `answers`). In a pass, a step or a queue it takes the engine down with it, every
open future failing clearly: whoever owns the process starts it again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum, auto
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from motet.engine.backends.base import Backend, OnPart, PieceResult, SampleOrder, TrainPart
from motet.engine.core.answers import answer, fail, resolve, told
from motet.engine.core.filework import FileWork
from motet.engine.core.floor import Floor
from motet.engine.core.queues import PassItem, Pending, Queues, TrainPass
from motet.engine.core.requests import (
    CreateRun,
    DropRun,
    DropVersion,
    ForwardBackward,
    LoadVersion,
    NewRun,
    OptimStep,
    Publish,
    Request,
    Sample,
    SaveVersion,
    Stats,
)
from motet.engine.turns.ledger import Ledger
from motet.engine.types import Lane, Payer
from motet.errors import EngineFault, EngineGone, MotetError


class Signal(Enum):
    """What the sampling lane may find among its orders."""

    WAKE = auto()  # something outside has changed, such as a version that is in memory now
    STOP = auto()


class Engine:
    """One warm base model and everybody's runs on it."""

    def __init__(self, backend: Backend, floor: Floor, queues: Queues, ledger: Ledger) -> None:
        self.info = backend.info
        self._backend = backend
        self._floor = floor
        self._queues = queues
        self._ledger = ledger
        self._files = FileWork(backend, queues, self._stop)
        self._orders: SimpleQueue[SampleOrder | Future[Any] | Signal] = SimpleQueue()  # a future: cancel it
        self._open: set[Future[Any]] = set()
        self._fault: BaseException | None = None
        self._closing = False
        self._stepping = False  # the last sampling step found something to do
        self._lanes = [
            threading.Thread(target=self._lane, args=("training", self._training_lane), daemon=True),
            threading.Thread(target=self._lane, args=("sampling", self._sampling_lane), daemon=True),
        ]
        backend.attach(self.wake)
        for lane in self._lanes:
            lane.start()

    @property
    def stopped(self) -> bool:
        """A fault has ended it: whoever owns the process starts it again."""
        return self._fault is not None

    def submit(self, request: Request, on_part: OnPart | None = None) -> Future[Any]:
        """File a request; its future gives what `requests` says, or an error of motet.errors.

        `on_part` hears of each token of a Sample as it is drawn; it is called by the sampling lane, and must be quick.
        """
        future: Future[Any] = Future()
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        if self._fault is not None or self._closing:
            fail(future, EngineGone(f"the engine has stopped: {self._fault or 'it was closed'}"))
        elif isinstance(request, Sample):
            self._orders.put(_order(request, future, on_part))
        elif isinstance(request, SaveVersion | LoadVersion):
            self._files.take_version(request, future)
        elif isinstance(request, DropVersion | Stats):
            answer(future, lambda: self._short(request))
        else:
            if isinstance(request, NewRun | DropRun):
                future.add_done_callback(partial(self._keep_accounts, request))
            self._queues.put(Pending(request, future))
        return future

    def _keep_accounts(self, request: NewRun | DropRun, future: Future[Any]) -> None:
        """A run that came to be has an account, one that went has none."""
        if future.cancelled() or future.exception() is not None:
            return
        if isinstance(request, DropRun):
            self._ledger.close(request.run)
        else:
            self._ledger.open(request.run, request.claim)

    def cancel(self, future: Future[Any]) -> None:
        """Take a sampling request back; what it holds is free after the next step. Others are not cancelled."""
        self._orders.put(future)

    def close(self) -> None:
        """Finish the work in hand and stop; what is still queued fails."""
        self._closing = True
        self._queues.close()
        self._orders.put(Signal.STOP)
        for lane in self._lanes:
            lane.join()
        self._files.close()
        self._fail_open(EngineGone("the engine was closed"))
        self._backend.close()

    def stats(self) -> dict[str, float]:
        """Counters and gauges of every part."""
        times = {}
        for lane, clock in self._floor.clocks.items():
            times[f"{lane}_busy_seconds"] = clock.busy
            times[f"{lane}_longest_wait_seconds"] = clock.longest_wait
        return {
            **self._backend.sizes(),
            **self._queues.sizes(),
            **self._files.sizes(),
            **times,
            "serving_seconds": self._ledger.serving_seconds(),
            **self._ledger.seconds(),
        }

    # -- lanes -------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Both lanes look again at what they can do."""
        self._queues.wake()
        self._orders.put(Signal.WAKE)

    def _lane(self, lane: Lane, work: Callable[[], None]) -> None:
        try:
            self._backend.enter_lane(lane)
            work()
        except BaseException as error:
            self._stop(error)
            raise

    def _stop(self, error: BaseException) -> None:
        """A fault in any thread ends the engine."""
        self._fault = error
        self._closing = True
        self._queues.close()
        self._orders.put(Signal.STOP)
        self._fail_open(EngineGone(f"the engine stopped on a fault of its own: {error!r}"))

    def _fail_open(self, error: MotetError) -> None:
        for future in list(self._open):
            fail(future, error)

    def _training_lane(self) -> None:
        while (work := self._queues.next(self._cut)) is not None:
            if isinstance(work, TrainPass):
                with self._floor.held("training"):
                    self._run_pass(work)
            elif self._files.wants(work):
                self._files.take(work)
            else:
                self._do_short(work)

    def _do_short(self, work: Pending) -> None:
        with self._floor.held("training"):
            began = self._floor.worked("training")
            answer(work.future, lambda: self._short(work.request))
            self._ledger.charge(work.account, "training", self._floor.worked("training") - began)
        self._queues.done(work)

    def _sampling_lane(self) -> None:
        while self._take_orders():
            with self._floor.held("sampling"):
                self._step()

    # -- training ----------------------------------------------------------------------------------------------

    def _cut(self, pending: Pending) -> None:
        request = pending.request
        assert isinstance(request, ForwardBackward)
        try:
            pending.pieces = self._backend.training.cut(request.run, request.data, request.loss)
        except Exception as error:
            fail(pending.future, told(error))

    def _run_pass(self, work: TrainPass) -> None:
        began = self._floor.worked("training")
        results = self._backend.training.train([_part(item) for item in work.items], work.backward)
        seconds_a_row = (self._floor.worked("training") - began) / sum(item.piece.rows for item in work.items)
        for item, result in zip(work.items, results, strict=True):
            if isinstance(result, PieceResult):
                seconds = seconds_a_row * item.piece.rows
                item.pending.seconds += seconds
                self._ledger.charge(item.pending.account, "training", seconds)
                self._deliver(item, result)
        pairs = zip(work.items, results, strict=True)
        lost = {item.pending: fault for item, fault in pairs if isinstance(fault, EngineFault)}
        for pending, fault in lost.items():
            self._queues.done(pending)
            fail(pending.future, fault)

    def _deliver(self, item: PassItem, result: PieceResult) -> None:
        pending = item.pending
        pending.results.append(result)
        if len(pending.results) == len(pending.pieces or ()):
            self._queues.done(pending)
            merged = self._backend.training.merge(pending.results)
            merged.metrics["seconds:sum"] = pending.seconds
            resolve(pending.future, merged)

    def _short(self, request: Request) -> object:
        """What takes no pass, no step and no file."""
        backend = self._backend
        match request:
            case CreateRun(run, shape, seed, _):
                return backend.training.create_run(run, shape, seed)
            case OptimStep(run, adam, journal):
                return backend.training.optim_step(run, adam, None if journal is None else Path(journal))
            case Publish(run, version):
                return backend.training.publish(run, version)
            case DropRun(run):
                return backend.training.drop_run(run)
            case DropVersion(version):
                return backend.versions.drop(version)
            case Stats():
                return self.stats()
            case _:
                raise AssertionError(f"{request} is not a short request")

    # -- sampling ----------------------------------------------------------------------------------------------

    def _take_orders(self) -> bool:
        """Hand all waiting orders to the sampler; wait for one where nothing is in hand. False: stop."""
        block = not self._stepping
        while True:
            try:
                order = self._orders.get(block=block)
            except Empty:
                return True
            block = False
            if order is Signal.STOP or self._closing:
                return False
            if isinstance(order, SampleOrder):
                self._begin(order)
            elif isinstance(order, Future):
                self._backend.sampling.cancel(order)

    def _step(self) -> None:
        """One step; each account pays for its rows."""
        began = self._floor.worked("sampling")
        rows = self._backend.sampling.step()
        seconds = self._floor.worked("sampling") - began
        for account, count in rows.items():
            self._ledger.charge(account, "sampling", seconds * count / sum(rows.values()))
        self._stepping = bool(rows)

    def _begin(self, order: SampleOrder) -> None:
        try:
            self._backend.sampling.begin(order)
        except Exception as error:
            fail(order.done, told(error))


def _part(item: PassItem) -> TrainPart:
    request = item.pending.request
    assert isinstance(request, ForwardBackward)
    return TrainPart(request.run, item.piece, request.loss)


def _order(request: Sample, future: Future[Any], on_part: OnPart | None) -> SampleOrder:
    return SampleOrder(
        request.version,
        request.prompt,
        request.params,
        request.num_samples,
        request.query,
        request.top_sample_logprobs,
        Payer(share=request.share, serving=request.serving),
        future,
        on_part,
    )
