"""Many may pass together; one who must be alone waits until they are through, and holds up those after it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(eq=False)
class _Passage:
    passing: int = 0
    empty: asyncio.Event = field(default_factory=asyncio.Event)
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)


class Passages:
    """One passage a tenant."""

    def __init__(self) -> None:
        self._passages: defaultdict[str, _Passage] = defaultdict(_Passage)

    @asynccontextmanager
    async def together(self, tenant: str) -> AsyncIterator[None]:
        """Beside others of this kind."""
        passage = self._passages[tenant]
        async with passage.alone:  # nobody is alone in there
            passage.passing += 1
        try:
            yield
        finally:
            passage.passing -= 1
            if not passage.passing:
                passage.empty.set()

    @asynccontextmanager
    async def alone(self, tenant: str) -> AsyncIterator[None]:
        """With nobody else of this tenant."""
        passage = self._passages[tenant]
        async with passage.alone:
            while passage.passing:
                passage.empty.clear()
                await passage.empty.wait()
            yield
