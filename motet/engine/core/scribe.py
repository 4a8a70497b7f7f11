"""A thread for files, so that no lane and no channel ever waits for a disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

Job = Callable[[], None]


class Scribe:
    """Does jobs one after another, in the order they came.

    It needs no bound of its own: a run waits for the job that it has here, and a job holds nothing until it begins.
    """

    def __init__(self, name: str, on_fault: Callable[[BaseException], None]) -> None:
        """`on_fault` hears of an error that a job did not foresee; no other job is done after it."""
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()  # None: stop
        self._on_fault = on_fault
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
        self._jobs.put(job)

    def waiting(self) -> int:
        """Jobs that have not begun."""
        return self._jobs.qsize()

    def close(self) -> None:
        """Finish the job in hand; those that wait are not done."""
        self._closed = True
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None and not self._closed:
            try:
                job()
            except BaseException as error:
                self._on_fault(error)
                raise
