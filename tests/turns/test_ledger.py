"""Accounts of device time under a clock that stands still: who is owed what, and what never happens."""

from __future__ import annotations

import itertools

import pytest

from motet.engine.turns.ledger import OWED, SAVED, Ledger
from motet.engine.turns.policies import Fair, FirstCome, Policy, Throughput
from motet.engine.types import Claim, Payer
from motet.errors import BadRequest


def ledger(policy: Policy, longest_wait: float = 1e9) -> Ledger:
    ticks = itertools.count()
    return Ledger(policy, longest_wait, now=lambda: float(next(ticks)))


def names(book: Ledger, *runs: str) -> list[str]:
    accounts = [book.begin(Payer(run), "training") for run in runs]
    order = [account.name for account in book.order(accounts, "training")]
    for account in accounts:
        book.end(account, "training")
    return order


def test_whoever_had_least_comes_first_on_either_lane() -> None:
    book = ledger(Fair())
    for run in "abc":
        book.open(run, Claim())
    held = {run: book.begin(Payer(run), "sampling") for run in "abc"}
    for run, seconds in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        book.charge(held[run], "sampling", seconds)
    assert names(book, "a", "b", "c") == ["b", "c", "a"]
    assert book.seconds()["sampling_seconds:a"] == 3.0 and book.seconds()["training_seconds:a"] == 0.0


def test_idling_saves_nothing_up() -> None:
    """Away for an hour of the other's device time, one is owed a moment and no more."""
    book = ledger(Fair())
    book.open("worker", Claim())
    book.open("idler", Claim())
    worker = book.begin(Payer("worker"), "training")
    book.charge(worker, "training", 3600.0)
    idler = book.begin(Payer("idler"), "training")
    assert idler.tag == worker.tag - OWED


def test_working_alone_is_no_debt_to_those_who_come_later() -> None:
    book = ledger(Fair())
    book.open("early", Claim())
    early = book.begin(Payer("early"), "training")
    book.charge(early, "training", 3600.0)
    book.end(early, "training")
    late = book.begin(Payer("late"), "training")
    assert late.tag == early.tag - OWED


def test_one_that_asks_for_little_saves_up_no_more_than_the_bound() -> None:
    book = ledger(Fair())
    little, much = book.begin(Payer("little"), "sampling"), book.begin(Payer("much"), "sampling")
    for _ in range(100):
        book.charge(little, "sampling", 0.01)
        book.charge(much, "sampling", 1.0)
    assert much.tag - little.tag == pytest.approx(SAVED, abs=0.02)


def test_lane_budgets_are_what_their_runs_are_due() -> None:
    book = ledger(Fair())
    book.begin(Payer("trainer"), "training")
    for run in range(7):
        book.begin(Payer(f"sampler-{run}"), "sampling")
    assert book.budget("training") == pytest.approx(1 / 8)
    assert book.budget("sampling") == pytest.approx(7 / 8)


def test_a_share_weighs_as_one_and_by_its_own_priority() -> None:
    book = ledger(Fair())
    for run, share in (("a", "one"), ("b", "two"), ("c", "two")):
        book.open(run, Claim(share=share, share_priority=3.0 if share == "one" else 1.0))
    book.begin(Payer("a"), "training")
    for run in "bc":
        book.begin(Payer(run), "sampling")
    assert book.budget("training") == pytest.approx(3 / 4)


def test_no_lane_is_ever_due_nothing() -> None:
    book = ledger(FirstCome())
    book.begin(Payer("first"), "sampling")
    book.begin(Payer("second"), "training")
    assert book.budget("training") == pytest.approx(0.05)


def test_first_come_is_the_order_of_opening_and_throughput_goes_round() -> None:
    early, round_robin = ledger(FirstCome()), ledger(Throughput())
    for book in (early, round_robin):
        for run in "abc":
            book.open(run, Claim())
        held = {run: book.begin(Payer(run), "training") for run in "cba"}
        book.charge(held["c"], "training", 1.0)
        assert [account.name for account in book.order(held.values(), "training")] == {
            early: ["a", "b", "c"],
            round_robin: ["b", "a", "c"],
        }[book]


def test_samples_are_paid_by_the_run_of_their_version_else_by_the_share_given() -> None:
    book = ledger(Fair())
    book.open("run", Claim(share="tenant"))
    assert book.begin(Payer("run", "tenant"), "sampling").name == "run"
    loose = book.begin(Payer("gone", "tenant"), "sampling")
    assert loose.name == "" and loose.share.name == "tenant"
    assert book.begin(Payer(None, "tenant"), "sampling") is loose


def test_accounts_go_with_their_run_and_its_last_request() -> None:
    book = ledger(Fair())
    for run in range(100):
        name = f"run-{run}"
        creating = book.begin(Payer(name), "training")
        book.open(name, Claim(share=f"tenant-{run}"))
        book.end(creating, "training")
        sampling = book.begin(Payer(name), "sampling")
        dropping = book.begin(Payer(name), "training")
        book.close(name)
        book.end(dropping, "training")
        assert book.begin(Payer(name), "sampling") is sampling  # still at work
        book.end(sampling, "sampling")
        book.end(sampling, "sampling")
        book.end(book.begin(Payer(None, f"tenant-{run}"), "sampling"), "sampling")
    assert book.seconds() == {} and book.accounts() == 0


@pytest.mark.parametrize("priority", [0, -1.0, 1e-320, 1e308, float("inf"), float("nan")])
def test_a_priority_that_nobody_can_be_weighed_against_is_refused(priority: float) -> None:
    with pytest.raises(BadRequest, match="choose 1/1000 to 1000"):
        Claim(priority)
    with pytest.raises(BadRequest, match="choose 1/1000 to 1000"):
        Claim(share_priority=priority)


def test_answers_come_first_within_their_part() -> None:
    """A quarter of device time: answers that would take all of it get that, whatever the policy; others the rest."""
    for policy in (Fair(), Throughput(), FirstCome()):
        book = Ledger(policy, 1e9, now=lambda: 0.0, serving_part=0.25)
        book.open("trainer", Claim())
        trainer = book.begin(Payer("trainer"), "training")
        rollout = book.begin(Payer("trainer"), "sampling")
        answer = book.begin(Payer("trainer", "red", serving=True), "sampling")
        assert book.order([rollout, answer], "sampling")[0] is answer is not rollout
        had = {True: 0.0, False: 0.0}
        for _ in range(4000):
            first = book.serving_first()
            book.charge(answer if first else trainer, "sampling" if first else "training", 0.01)
            had[first] += 0.01
        assert had[True] / sum(had.values()) == pytest.approx(0.25, abs=0.03), policy
        assert book.serving_seconds() == pytest.approx(had[True])
        book.end(answer, "sampling")
        assert not book.serving_first()


def test_what_others_sample_beside_an_answer_counts_against_its_part() -> None:
    """Else a lane full of rollouts would come first for as long as one answer is on its way."""
    book = Ledger(Fair(), 1e9, now=lambda: 0.0, serving_part=0.5)
    rollout, answer = book.begin(Payer("run"), "sampling"), book.begin(Payer(share="red", serving=True), "sampling")
    for _ in range(300):
        book.charge(rollout, "sampling", 0.01)
    assert not book.serving_first()
    book.end(answer, "sampling")
    assert book.begin(Payer(share="red", serving=True), "sampling") and not book.serving_first()


def test_answering_alone_is_no_debt_that_lasts() -> None:
    book = Ledger(Fair(), 1e9, now=lambda: 0.0, serving_part=0.5)
    answer, trainer = book.begin(Payer(share="red", serving=True), "sampling"), book.begin(Payer("run"), "training")
    book.charge(answer, "sampling", 3600.0)
    assert not book.serving_first()
    book.charge(trainer, "training", 0.5)
    assert book.serving_first()
