"""The loop: stage after stage, round after round, until it is stopped; it can be killed at any moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import tinker

from motet.errors import Busy, EngineFault
from motet.lab.experiments.door import Door, choose_model
from motet.lab.experiments.server import check_server
from motet.lab.loop.examiner import Examiner
from motet.lab.loop.log import Log
from motet.lab.loop.rounds import Rounds
from motet.lab.loop.settings import Policy


def open_rounds(policy: Policy, base_url: str, api_key: str, folder: Path, log: Log) -> Rounds:
    """A name's loop at a server. BadConfig: nobody answers there, or it serves another base model."""
    check_server(base_url)
    door = Door(base_url, api_key, choose_model(base_url, api_key, policy.model))
    return Rounds(policy, door, folder, log, Examiner(policy, door))


async def run(rounds: Rounds, log: Log, look_every: float) -> None:
    """For ever. A server that is away or busy is waited for: whatever stage it was, it is begun again."""
    while True:
        try:
            moved = await rounds.advance()
        except (EngineFault, Busy, tinker.APIConnectionError, tinker.InternalServerError) as error:
            log.say("wait", f"the server does not answer as it should: {error}")
            moved = False
        if not moved:
            await asyncio.sleep(look_every)


async def run_once(rounds: Rounds, look_every: float) -> None:
    """Until a round is over, or there is nothing to begin one with."""
    stage, began = rounds.stage(), False
    while not (began and stage == "gather"):
        moved = await rounds.advance()
        if stage == "gather" and not moved:
            return
        if not moved:
            await asyncio.sleep(look_every)
        began = began or stage != "open"
        stage = rounds.stage()
