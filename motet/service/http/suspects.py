"""What may have killed an engine is begun anew with no other of its kind beside it, so that nobody is given up for it.

Whatever was in hand when an engine died for the second time is a suspect. The one that kills the third engine is given
up; the others, one after the other, are done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from motet.service.http.accepted import Accepted
from motet.service.http.desk import MOST_DEATHS, Desk

SUSPECT = MOST_DEATHS - 1  # engines that have died with a request in hand


class Suspects:
    """Those of a whole server: at most one of them is at work."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._turn = asyncio.Lock()

    async def begin(self, requests: Iterable[Accepted]) -> bool:
        """Begin the suspects among these that wait, in their order, each when the one before has worked. False: an
        engine died meanwhile, or there is none; whoever starts the next one begins what is left."""
        for accepted in [one for one in requests if one.deaths >= SUSPECT]:
            async with self._turn:
                if accepted.stage != "waiting" or accepted.settled.is_set():  # taken back
                    continue
                self._desk.begin(accepted, alone=True)
                assert accepted.task is not None, "it was begun"
                await asyncio.wait([accepted.task])
                await asyncio.sleep(0)  # the desk hears of it
                if accepted.stage == "waiting":
                    return False
        return True
