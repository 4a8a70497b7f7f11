"""Who waits to be admitted, and who is next: the one that came first, or one of the tenant that has the least."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Job:
    """An experiment. `size`: the work of its steps, where 1 is what the stations were measured with."""

    tenant: str
    arrives: float  # seconds
    steps: int
    size: float = 1.0


@dataclass
class Line:
    """`fair`: the tenant with the fewest admitted experiments first, and of equal ones who came first."""

    fair: bool
    _comings: int = 0
    _waiting: dict[str, deque[tuple[int, Job]]] = field(default_factory=lambda: defaultdict(deque))
    _admitted: Counter[str] = field(default_factory=Counter)
    _heap: list[tuple[int, int, str]] = field(default_factory=list)  # admitted, order of coming, tenant: some outdated

    def put(self, job: Job) -> None:
        self._comings += 1
        self._waiting[job.tenant].append((self._comings, job))
        self._offer(job.tenant)

    def take(self) -> Job | None:
        """The next one, counted as admitted until `done`; None: nobody waits."""
        while self._heap:
            offer = heapq.heappop(self._heap)
            tenant = offer[2]
            if offer == self._best_of(tenant):
                _, job = self._waiting[tenant].popleft()
                self._admitted[tenant] += 1
                self._offer(tenant)
                return job
        return None

    def done(self, tenant: str) -> None:
        self._admitted[tenant] -= 1
        self._offer(tenant)

    def _best_of(self, tenant: str) -> tuple[int, int, str] | None:
        waiting = self._waiting[tenant]
        return (self._admitted[tenant] if self.fair else 0, waiting[0][0], tenant) if waiting else None

    def _offer(self, tenant: str) -> None:
        """What was offered before and no longer holds is passed over when it comes up."""
        best = self._best_of(tenant)
        if best is not None:
            heapq.heappush(self._heap, best)
