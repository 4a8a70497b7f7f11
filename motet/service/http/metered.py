"""The supervisor with a clock beside it: every request to the engine is counted and timed."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from motet.engine.core.channel import OnPart
from motet.engine.core.requests import Request, Stats
from motet.errors import MotetError
from motet.service.http.metrics import Meters
from motet.service.http.supervisor import Entry, Launched, Supervisor


class MeteredSupervisor(Supervisor):
    """Tells `meters` how each request went."""

    def __init__(self, entry: Entry, meters: Meters, first: Launched | None = None) -> None:
        super().__init__(entry, first)
        self._meters = meters

    def submit(self, request: Request, on_part: OnPart | None = None) -> asyncio.Future[Any]:
        """As the supervisor's."""
        began = time.perf_counter()
        answer = super().submit(request, on_part)
        if not isinstance(request, Stats):
            answer.add_done_callback(lambda done: self._tell(request, done, time.perf_counter() - began))
        return answer

    def _tell(self, request: Request, done: asyncio.Future[Any], seconds: float) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._meters.engine_done(request, done.result(), seconds)
        elif isinstance(error, MotetError):
            self._meters.engine_failed(request, error)

    def memory_bytes(self) -> int:
        """Resident memory of the engine's process; 0 while there is none, and where the system does not tell."""
        return 0 if self._process is None or self._process.pid is None else resident_bytes(self._process.pid)


def resident_bytes(pid: int) -> int:
    """A process's resident memory; 0 where it has gone or the system does not tell."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
