"""A loop with its people from a file to a page: on a server of its own, where no other is named."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from rich.console import Console

from motet.client.connection import Connection
from motet.client.names import Names
from motet.lab.experiments.door import Door
from motet.lab.experiments.server import background_server
from motet.lab.loop.gate.sets import read_set
from motet.lab.loop.log import Log
from motet.lab.loop.loop import open_rounds
from motet.lab.loop.settings import Policy
from motet.lab.loop.simulated.crowd import Crowd, Guard
from motet.lab.loop.simulated.page import write_page
from motet.lab.loop.simulated.people import open_people
from motet.lab.loop.simulated.play import Entry, Play
from motet.lab.loop.simulated.settings import Simulation


def show(
    policy: Policy, plan: Simulation, base_url: str | None, api_key: str, folder: Path, log: Log, console: Console
) -> None:
    """Play everything. BadConfig, EngineFault."""
    people = open_people(plan.people)
    regression = policy.gate.regression
    general = Guard([] if regression is None else read_set(regression), policy.gate.max_tokens)
    entries = list[Entry]()

    def tell(entry: Entry) -> None:
        entries.append(entry)
        bar = "█" * round(20 * entry.acceptance)
        general = "" if entry.general is None else f"{entry.general:>4.0%} elsewhere"
        told = f"{entry.what:<26} v{entry.serving:<3} {entry.acceptance:>4.0%} {bar:<20} {general}  {entry.decided}"
        console.print(told, soft_wrap=True)
        write_page(folder, policy.name, entries)

    server: AbstractContextManager[str] = (
        nullcontext(base_url) if base_url else background_server(policy.model, folder, console)
    )
    with server as address:
        rounds = open_rounds(policy, address, api_key, folder, log)
        crowd = Crowd(policy.name, Door(address, api_key, ""), people, plan)
        names = Names(Connection(address, api_key), by="somebody")
        asyncio.run(Play(policy.name, rounds, names, crowd, plan, general, tell).run())
    console.print(f"to look at: {write_page(folder, policy.name, entries)}", soft_wrap=True)
