"""What the training lane does next: order within a run, everybody in turn, passes filled from many runs."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np

from motet.engine.core.queues import Pending, Queues, TrainPass
from motet.engine.core.requests import ForwardBackward, OptimStep
from motet.engine.trainer.packing import cut_pieces
from motet.engine.types import AdamW, Datum, Loss
from motet.errors import BadRequest

ROWS = 20


def fb(run: str, lengths: list[int], backward: bool = True) -> Pending:
    data = tuple(Datum(np.arange(n) + 100 * i, np.arange(n)) for i, n in enumerate(lengths))
    return Pending(ForwardBackward(run, data, Loss(), backward), Future())


def step(run: str) -> Pending:
    return Pending(OptimStep(run, AdamW()), Future())


def cut(pending: Pending) -> None:
    assert isinstance(pending.request, ForwardBackward)
    pending.pieces = cut_pieces(pending.request.data, ROWS)


def make(*requests: Pending) -> Queues:
    queues = Queues(ROWS, ready=lambda run: True)
    for request in requests:
        queues.put(request)
    return queues


def take_pass(queues: Queues) -> TrainPass:
    work = queues.next(cut)
    assert isinstance(work, TrainPass)
    for item in work.items:
        item.pending.results.append(None)  # type: ignore[arg-type]
        if len(item.pending.results) == len(item.pending.pieces or ()):
            queues.done(item.pending)
    return work


def runs_of(work: TrainPass) -> list[str]:
    return [item.pending.request.run for item in work.items]


def test_one_pass_holds_many_runs() -> None:
    assert runs_of(take_pass(make(fb("a", [5]), fb("b", [5]), fb("c", [5])))) == ["a", "b", "c"]


def test_a_pass_is_full_at_its_budget_and_turns_are_kept() -> None:
    queues = make(fb("a", [15, 15, 15]), fb("b", [15, 15]))
    assert [runs_of(take_pass(queues)) for _ in range(5)] == [["a"], ["b"], ["a"], ["b"], ["a"]]


def test_a_short_request_waits_for_its_own_run_only() -> None:
    first, second = fb("a", [5]), step("a")
    other = step("b")
    queues = make(first, second, other)
    assert queues.next(cut) is other
    queues.done(other)
    assert runs_of(take_pass(queues)) == ["a"]
    assert queues.next(cut) is second


def test_forward_only_and_backward_never_share_a_pass() -> None:
    queues = make(fb("a", [5]), fb("b", [5], backward=False), fb("c", [5]))
    assert runs_of(take_pass(queues)) == ["a", "c"]
    work = take_pass(queues)
    assert runs_of(work) == ["b"] and not work.backward


def test_chunks_of_one_run_share_a_pass_in_order() -> None:
    chunks = [fb("a", [5]), fb("a", [6]), fb("a", [7])]
    work = take_pass(make(*chunks))
    assert [item.pending for item in work.items] == chunks


def test_a_bad_request_leaves_and_the_rest_goes_on() -> None:
    bad, good = fb("a", [5]), fb("b", [5])

    def cut_or_fail(pending: Pending) -> None:
        if pending is bad:
            pending.future.set_exception(BadRequest("no"))
        else:
            cut(pending)

    queues = make(bad, good)
    work = queues.next(cut_or_fail)
    assert isinstance(work, TrainPass) and runs_of(work) == ["b"]
    assert queues.sizes()["train_requests_waiting"] == 1


def test_a_run_on_disk_is_passed_over() -> None:
    queues = Queues(ROWS, ready=lambda run: run != "a")
    queues.put(fb("a", [5]))
    queues.put(fb("b", [5]))
    assert runs_of(take_pass(queues)) == ["b"]


def test_a_piece_larger_than_a_pass_is_a_pass_alone() -> None:
    queues = make(fb("a", [50]), fb("b", [5]))
    assert [runs_of(take_pass(queues)) for _ in range(2)] == [["a"], ["b"]]
