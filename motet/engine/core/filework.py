"""Requests that need a file: read and written by threads of their own, while nobody waits but the run that asked.

A run waits at the head of its queue. An optimizer step comes back to the training lane once its gradient stands on
disk, so that no weights are ever ahead of the journal; a run that is saved goes on as soon as its state is copied.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from motet.engine.backends.base import Backend
from motet.engine.core.answers import answer, fail, told
from motet.engine.core.queues import Pending, Queues
from motet.engine.core.requests import LoadRun, LoadVersion, OptimStep, RestoreRun, SaveRun, SaveVersion
from motet.engine.core.scribe import Scribe


class FileWork:
    """Two threads, so that what is read for somebody never waits for what is written for others."""

    def __init__(self, backend: Backend, queues: Queues, on_fault: Callable[[BaseException], None]) -> None:
        self._backend = backend
        self._queues = queues
        self._writing = Scribe("writing", on_fault)
        self._reading = Scribe("reading", on_fault)

    def wants(self, pending: Pending) -> bool:
        """Does a run's request need a file before the training lane may have it, if ever?"""
        match pending.request:
            case OptimStep(journal=journal):
                return journal is not None and not pending.journaled
            case SaveRun() | LoadRun() | RestoreRun():
                return True
            case _:
                return False

    def take(self, pending: Pending) -> None:
        """Begin a run's request; its run waits."""
        pending.away = True
        scribe = self._writing if isinstance(pending.request, OptimStep | SaveRun) else self._reading
        scribe.put(lambda: self._work(pending))

    def take_version(self, request: SaveVersion | LoadVersion, future: Future[Any]) -> None:
        """Begin a request about a version; nobody waits."""
        versions = self._backend.versions
        match request:
            case SaveVersion(version, folder):
                self._writing.put(lambda: answer(future, lambda: versions.save(version, Path(folder))))
            case LoadVersion(version, folder, number, run):
                self._reading.put(lambda: answer(future, lambda: versions.load(version, Path(folder), number, run)))

    def sizes(self) -> dict[str, float]:
        """Gauges for people."""
        return {"files_to_write": self._writing.waiting(), "files_to_read": self._reading.waiting()}

    def close(self) -> None:
        """Finish what has begun."""
        self._writing.close()
        self._reading.close()

    def _work(self, pending: Pending) -> None:
        match pending.request:
            case OptimStep():
                self._journal(pending, pending.request)
            case SaveRun(run, folder):
                self._save(pending, run, Path(folder))
            case LoadRun(run, folder, optimizer):
                answer(pending.future, lambda: self._backend.training.load_run(run, Path(folder), optimizer))
                self._queues.done(pending)
            case RestoreRun(run, origin, steps, published):
                answer(pending.future, lambda: self._backend.training.restore_run(run, origin, steps, published))
                self._queues.done(pending)

    def _journal(self, pending: Pending, step: OptimStep) -> None:
        assert step.journal is not None
        try:
            self._backend.training.journal_step(step.run, step.adam, Path(step.journal))
        except Exception as error:
            fail(pending.future, told(error))
            self._queues.done(pending)
        else:
            pending.journaled = True
            self._queues.back(pending)

    def _save(self, pending: Pending, run: str, folder: Path) -> None:
        try:
            write = self._backend.training.copy_run(run, folder)
        except Exception as error:
            fail(pending.future, told(error))
            self._queues.done(pending)
        else:
            self._queues.done(pending)
            answer(pending.future, write)
