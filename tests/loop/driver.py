"""`motet loop` in a process of its own, which ends with SIGKILL where it is told to; and a judge that lets all through.

    python -m tests.loop.driver FILE.toml ADDRESS KEY FOLDER END

END is `before STAGE`'s act, `after STAGE`'s act, when the server knows of it and nothing else has happened yet, or the
beginning of something that the loop says, which it says before it is written down in its folder.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from motet.lab.experiments.door import Door, choose_model
from motet.lab.loop.items import Item
from motet.lab.loop.judges import Doubt, Sides, Verdict
from motet.lab.loop.log import Log
from motet.lab.loop.rounds import Rounds
from motet.lab.loop.settings import Policy, load


class Willing:
    """Lets everything through, at once."""

    async def gate(self, sides: Sides, items: Sequence[Item]) -> Verdict:
        return Verdict(True, "as good as before")

    def canary(self, before: Sequence[Item], after: Sequence[Item], minutes: float) -> Verdict | None:
        return Verdict(True, "nobody complains")

    def doubts(self, items: Sequence[Item]) -> list[Doubt]:
        return []


class Deadly(Log):
    """Says a last word."""

    end = ""

    def say(self, stage: str, text: str, **facts: Any) -> None:
        super().say(stage, text, **facts)
        die_at(text, self.end)


def die_at(place: str, end: str) -> None:
    """Without a farewell, as by the kernel."""
    if end and place.startswith(end):
        os.kill(os.getpid(), signal.SIGKILL)


def rounds(policy: Policy, address: str, key: str, folder: Path, end: str = "") -> Rounds:
    door = Door(address, key, choose_model(address, key, None))
    log = Deadly(folder, policy.name, Console())
    log.end = end
    return Rounds(policy, door, folder, log, Willing())


async def play(own: Rounds, end: str = "") -> list[str]:
    """Until nothing can be done; gives the stages."""
    done = list[str]()
    while True:
        stage = own.stage()
        die_at(f"before {stage}", end)
        if not await own.advance():
            return done
        done.append(stage)
        die_at(f"after {stage}", end)


if __name__ == "__main__":
    file, address, key, folder, end = sys.argv[1:]
    asyncio.run(play(rounds(load(Path(file)), address, key, Path(folder), end), end))
