"""How fast each source speaks."""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_SOURCES = 10_000  # that are remembered


class Tempo:
    """A minute's worth may come at once."""

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = 60.0 / per_minute
        self._clock = clock
        self._next: dict[tuple[str, str], float] = {}  # by tenant and source

    def too_fast(self, tenant: str, source: str) -> bool:
        """Count one more; is it more than that source may say?"""
        now = self._clock()
        turn = max(self._next.get((tenant, source), 0.0), now - 60.0) + self._seconds
        if len(self._next) >= MOST_SOURCES:
            self._next = {known: at for known, at in self._next.items() if at > now - 60.0}
        self._next[tenant, source] = min(turn, now + self._seconds)
        return turn > now + 1e-9
