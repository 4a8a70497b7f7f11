"""The loop: stage after stage, round after round, until it is stopped; it can be killed at any moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rich.console import Console

from motet.lab.experiments.door import Door, choose_model
from motet.lab.experiments.server import check_server
from motet.lab.loop.examiner import Examiner
from motet.lab.loop.log import Log
from motet.lab.loop.rounds import Rounds
from motet.lab.loop.settings import Policy


def open_rounds(policy: Policy, base_url: str, api_key: str, folder: Path, console: Console) -> Rounds:
    """A name's loop at a server. BadConfig: nobody answers there, or it serves another base model."""
    check_server(base_url)
    door = Door(base_url, api_key, choose_model(base_url, api_key, policy.model))
    return Rounds(policy, door, folder, Log(folder, policy.name, console), Examiner(policy, door))


async def run(rounds: Rounds, look_every: float, once: bool) -> None:
    """For ever; `once`: until a round is over, or there is nothing to begin one with."""
    began = False
    while True:
        before = rounds.stage()
        if once and began and before == "gather":
            return
        moved = await rounds.advance()
        began = began or (moved and before != "open")
        if once and not moved and before == "gather":
            return
        if not moved:
            await asyncio.sleep(look_every)
