"""The thread for files: jobs in order, the one in hand finished, a fault told."""

from __future__ import annotations

import threading

import pytest

from motet.engine.core.scribe import Scribe


def no_fault(error: BaseException) -> None:
    raise AssertionError(error)


def test_jobs_are_done_in_order_and_the_one_in_hand_is_finished() -> None:
    scribe, done, may_go, begun = Scribe("test", no_fault), list[int](), threading.Event(), threading.Event()
    for number in range(20):
        scribe.put(lambda number=number: done.append(number))  # type: ignore[misc]

    def long_job() -> None:
        begun.set()
        may_go.wait(10)
        done.append(20)

    scribe.put(long_job)
    scribe.put(lambda: done.append(21))
    assert begun.wait(10) and scribe.waiting() == 1
    closing = threading.Thread(target=scribe.close)
    closing.start()
    while scribe.waiting() < 2:  # until the end of the work is in the queue
        pass
    may_go.set()
    closing.join(10)
    assert done == list(range(21))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_is_told_and_ends_the_work() -> None:
    told, after, ended = list[BaseException](), list[int](), threading.Event()

    def on_fault(error: BaseException) -> None:
        told.append(error)
        ended.set()

    def faulty() -> None:
        raise KeyError("nothing")

    scribe = Scribe("test", on_fault)
    scribe.put(faulty)
    scribe.put(lambda: after.append(1))
    assert ended.wait(10)
    scribe.close()
    assert isinstance(told[0], KeyError) and len(told) == 1 and after == []
