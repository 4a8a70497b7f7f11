"""A queue for every run, and what the training lane should do next: order within a run, turns between runs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from motet.engine.backends.base import Piece, PieceResult
from motet.engine.core.requests import ForwardBackward, TrainRequest
from motet.engine.turns.accounts import Account
from motet.engine.turns.ledger import Ledger
from motet.engine.types import Payer


@dataclass(eq=False)
class Pending:
    """A request of a run on its way. A ForwardBackward is cut into pieces when its turn comes."""

    request: TrainRequest
    future: Future[Any]
    pieces: list[Piece] | None = None
    begun: int = 0  # pieces that are in a pass or through it
    results: list[PieceResult] = field(default_factory=list)
    seconds: float = 0.0  # of device time: its part of the passes it was in, by rows
    account: Account = field(default_factory=Account)  # who pays; set by the queues
    away: bool = False  # a file is read or written for it: its run waits
    journaled: bool = False  # an OptimStep's gradient stands on disk


@dataclass(frozen=True)
class PassItem:
    """One piece of a pending request."""

    pending: Pending
    piece: Piece


@dataclass(frozen=True)
class TrainPass:
    """Pieces of many runs for one forward (and backward); those of one run follow each other."""

    items: list[PassItem]
    backward: bool


class Queues:
    """Runs are served in the order of the ledger; a pass is filled up with the next ones where its policy says so."""

    def __init__(self, pass_rows: int, ready: Callable[[str], bool], ledger: Ledger, mixed: bool = True) -> None:
        self._pass_rows = pass_rows
        self._ready = ready
        self._ledger = ledger
        self._mixed = mixed and ledger.policy.fills_passes  # a pass holds many runs; `mixed` is off in benchmarks only
        self._runs: dict[str, deque[Pending]] = {}
        self._changed = threading.Condition()
        self._closed = False

    def put(self, pending: Pending) -> None:
        with self._changed:
            pending.account = self._ledger.begin(Payer(pending.request.run), "training")
            self._runs.setdefault(pending.request.run, deque()).append(pending)
            self._changed.notify_all()

    def wake(self) -> None:
        """Something outside has changed, such as a run that is in memory now."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def sizes(self) -> dict[str, float]:
        with self._changed:
            return {
                "runs_waiting": sum(1 for queue in self._runs.values() if queue),
                "train_requests_waiting": self._waiting(),
            }

    def _waiting(self) -> int:
        return sum(len(queue) for queue in self._runs.values())

    def next(self, cut: Callable[[Pending], None]) -> Pending | TrainPass | None:
        """Wait for work: one short request, or a pass. None: the queues are closed.

        `cut` fills in a request's pieces; where it resolves the future with an error instead, the request is done.
        """
        with self._changed:
            while not self._closed:
                waiting = self._waiting()
                work = self._short_request() or self._pass(cut)
                if work is not None:
                    return work
                if self._waiting() == waiting:  # else bad requests have left, and what stood behind them is next
                    self._changed.wait()
            return None

    def done(self, pending: Pending) -> None:
        """A request is over: it leaves the head of its queue."""
        with self._changed:
            self._remove(pending)
            self._changed.notify_all()

    def back(self, pending: Pending) -> None:
        """A request that was away is the training lane's again."""
        with self._changed:
            pending.away = False
            self._changed.notify_all()

    def _remove(self, pending: Pending) -> None:
        queue = self._runs[pending.request.run]
        queue.remove(pending)
        if not queue:
            del self._runs[pending.request.run]
        self._ledger.end(pending.account, "training")

    # -- the choice --------------------------------------------------------------------------------------------

    def _heads(self) -> list[Pending]:
        """The first request of every run that is in memory and waits for no file, in the order of turns."""
        firsts = [queue[0] for run, queue in self._runs.items() if not queue[0].away and self._ready(run)]
        heads = {first.account: first for first in firsts}
        return [heads[account] for account in self._ledger.order(heads, "training")]

    def _short_request(self) -> Pending | None:
        """Creation, optimizer step, publish, and so on: done at once, since others may wait for it."""
        return next((head for head in self._heads() if not isinstance(head.request, ForwardBackward)), None)

    def _pass(self, cut: Callable[[Pending], None]) -> TrainPass | None:
        items: list[PassItem] = []
        backward: bool | None = None
        room = self._pass_rows
        for head in self._heads():
            assert isinstance(head.request, ForwardBackward)
            if backward is not None and head.request.backward != backward:
                continue
            for pending in self._same_kind(head.request.run, head.request.backward):
                if not self._cut(pending, cut):
                    continue
                taken = self._take(pending, room, first=not items)
                room -= sum(item.piece.rows for item in taken)
                items += taken
                backward = head.request.backward if items else None
                if pending.begun < len(pending.pieces or ()):
                    break
            if items and not self._mixed:
                break
        return TrainPass(items, bool(backward)) if items else None

    def _same_kind(self, run: str, backward: bool) -> list[Pending]:
        """The requests at the head of a run's queue that may share a pass."""
        kind = []
        for pending in self._runs[run]:
            if not isinstance(pending.request, ForwardBackward) or pending.request.backward != backward:
                break
            kind.append(pending)
        return kind

    def _cut(self, pending: Pending, cut: Callable[[Pending], None]) -> bool:
        if pending.pieces is None:
            cut(pending)
        if pending.pieces is None:
            self._remove(pending)
            return False
        return True

    def _take(self, pending: Pending, room: int, first: bool) -> list[PassItem]:
        """Pieces that fit; one that fits no pass is a pass alone."""
        taken: list[PassItem] = []
        for piece in (pending.pieces or [])[pending.begun :]:
            if piece.rows > room and not (first and not taken):
                break
            taken.append(PassItem(pending, piece))
            room -= piece.rows
            pending.begun += 1
        return taken
