"""What the training lane does next: order within a run, everybody in turn, passes filled from many runs."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np

from motet.engine.core.queues import Pending, Queues, TrainPass
from motet.engine.core.requests import ForwardBackward, OptimStep
from motet.engine.trainer.packing import cut_pieces
from motet.engine.turns.ledger import Ledger
from motet.engine.turns.policies import Fair, FirstCome, Policy
from motet.engine.types import AdamW, Claim, Datum, Loss
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


class Lane:
    """Queues, the ledger that orders them, and a clock that only work moves: a millisecond a row."""

    def __init__(self, policy: Policy, *requests: Pending, longest_wait: float = 1e9) -> None:
        self.time = 0.0
        self.ledger = Ledger(policy, longest_wait, now=lambda: self.time)
        self.queues = Queues(ROWS, lambda run: not run.startswith("on disk"), self.ledger)
        for request in requests:
            self.queues.put(request)

    def take(self) -> TrainPass:
        work = self.queues.next(cut)
        assert isinstance(work, TrainPass)
        for item in work.items:
            seconds = item.piece.rows * 1e-3
            self.time += seconds
            self.ledger.charge(item.pending.account, "training", seconds)
            item.pending.results.append(None)  # type: ignore[arg-type]
            if len(item.pending.results) == len(item.pending.pieces or ()):
                self.queues.done(item.pending)
        return work


def make(*requests: Pending) -> Queues:
    return Lane(Fair(), *requests).queues


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
    lane = Lane(Fair(), fb("a", [15, 15, 15]), fb("b", [15, 15]))
    assert [runs_of(lane.take()) for _ in range(5)] == [["a"], ["b"], ["a"], ["b"], ["a"]]


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


def test_behind_a_bad_request_the_next_one_is_found_at_once() -> None:
    """Nobody calls a second time: the lane must look again by itself."""
    bad, after = fb("a", [5]), step("a")
    queues = make(bad, after)
    assert queues.next(lambda pending: pending.future.set_exception(BadRequest("no"))) is after


def test_a_run_on_disk_is_passed_over() -> None:
    assert runs_of(take_pass(make(fb("on disk", [5]), fb("b", [5])))) == ["b"]


def test_a_piece_larger_than_a_pass_is_a_pass_alone() -> None:
    queues = make(fb("a", [50]), fb("b", [5]))
    assert [runs_of(take_pass(queues)) for _ in range(2)] == [["a"], ["b"]]


def passes(lane: Lane, count: int) -> str:
    return "".join(run for _ in range(count) for run in runs_of(lane.take()))


def test_priorities_divide_time_one_to_one_to_two() -> None:
    lane = Lane(Fair())
    for run, priority in (("a", 1.0), ("b", 1.0), ("c", 2.0)):
        lane.ledger.open(run, Claim(priority))
        lane.queues.put(fb(run, [15] * 40))
    done = passes(lane, 40)
    assert [done.count(run) for run in "abc"] == [10, 10, 20]


def test_cheap_and_costly_requests_get_equal_time_not_equal_turns() -> None:
    lane = Lane(Fair(), fb("a", [18] * 30), *[fb("b", [12]) for _ in range(40)])
    done = passes(lane, 25)
    assert abs(18 * done.count("a") - 12 * done.count("b")) <= 18


def test_shares_are_equal_whatever_the_number_of_their_runs() -> None:
    lane = Lane(Fair())
    for run, share in (("a", "one"), ("b", "two"), ("c", "two"), ("d", "two")):
        lane.ledger.open(run, Claim(share=share))
        lane.queues.put(fb(run, [15] * 40))
    done = passes(lane, 60)
    assert [done.count(run) for run in "abcd"] == [30, 10, 10, 10]


def test_first_come_is_served_alone_until_it_leaves_a_gap() -> None:
    lane = Lane(FirstCome())
    lane.ledger.open("a", Claim())
    lane.ledger.open("b", Claim())
    for run in "ba":
        lane.queues.put(fb(run, [10, 10, 5]))
    assert passes(lane, 3) == "aab"  # a's second pass has room left, and none of b's rows in it
    lane.queues.put(fb("a", [10]))
    assert passes(lane, 2) == "ab"


def test_nobody_waits_longer_than_the_bound() -> None:
    lane = Lane(FirstCome(), fb("a", [15] * 100), fb("b", [15] * 100), longest_wait=0.1)
    done = passes(lane, 60)
    assert "b" in done and len(done.split("b")) - 1 == 7  # in 0.9 s, one turn each time that 0.1 s have passed
