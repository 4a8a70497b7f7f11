"""A soak: tenants that train and sample, one that only errs, an engine and a server that are killed now and then.

Nothing acknowledged is lost, memory stays flat, and no row or file is left that nothing names.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.client import Client
from tests.service.running import Restartable
from tests.service.test_durability import PatientClient, play
from tests.tiny import make_tiny_model

TENANTS = 4
STEPS = 2
MIB = 1024**2
MOST_GROWTH = 64 * MIB  # of the HTTP process, between the first third and the end
BAD: list[tuple[str, dict[str, Any]]] = [
    ("create_model", {"session_id": "none", "model_seq_id": 0}),
    ("optim_step", {"model_id": "none", "seq_id": 1}),
    ("asample", {"sampling_session_id": "none", "seq_id": 0, "prompt": {"chunks": []}}),
    ("retrieve_future", {"request_id": "nobody:1"}),
    ("save_weights", {"model_id": 7}),
    ("nothing_of_the_kind", {}),
]


def finish(client: PatientClient) -> None:
    """Say goodbye: everything but named checkpoints goes."""
    answer = client.send(f"sessions/{client.session}/finish", reason={"type": "success"})
    assert answer.status_code == 200, answer.text


class VeryPatientClient(PatientClient):
    """A server that is killed every few seconds on a busy machine takes minutes to answer."""

    patience = 300.0


class Soak:
    """Everything at once, for so many seconds."""

    def __init__(self, server: Restartable, seconds: float, expected: list[Any]) -> None:
        self.server = server
        self.until = time.monotonic() + seconds
        self.expected = expected
        self.stories = 0
        self.mistakes = 0
        self.resident: list[int] = []

    @property
    def over(self) -> bool:
        return time.monotonic() > self.until

    def tenant(self, number: int) -> None:
        """Lives the same story again and again, each time in a session of its own; it must always end alike."""
        while not self.over:
            client = VeryPatientClient(self.server.address, f"tml-{number}")
            assert play(client, STEPS, 1, []) == self.expected
            finish(client)
            self.stories += 1

    def vandal(self) -> None:
        """Errs in every way; it is told so at once, and nobody else feels it."""
        draw = random.Random(0)
        while not self.over:
            try:
                client = Client(self.server.address, "tml-vandal")
                while not self.over:
                    route, body = draw.choice(BAD)
                    answer = client.send(route, **body)
                    assert 400 <= answer.status_code < 500 or answer.status_code == 503, answer.text
                    self.mistakes += 1
                    time.sleep(0.02)
            except (httpx.TransportError, AssertionError) as error:
                if isinstance(error, AssertionError) and "create_session" not in str(error):
                    raise
                time.sleep(0.1)

    def killer(self, pause: float, kills: list[Callable[[], None]]) -> None:
        while not self.over:
            for kill in kills:
                time.sleep(pause)
                if self.over:
                    return
                kill()

    def watcher(self) -> None:
        while not self.over:
            time.sleep(0.5)
            self.resident.append(self.server.resident_bytes())


def left_behind(folder: Path) -> dict[str, int]:
    """What is there once every session is finished; named checkpoints do not count."""
    data = folder / "data"
    with sqlite3.connect(data / "catalog.sqlite") as catalog:
        rows = {
            table: catalog.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("steps", "samplers", "versions WHERE nameless")
        }
    files = sum(path.is_file() for room in ("runs", "spill") for path in (data / room).rglob("*"))
    return {**rows, "files": files}


def soak(folder: Path, seconds: float, pause: float) -> Soak:
    server = Restartable(make_tiny_model(folder / "model", "qwen3"), folder, ("--dtype", "float32"))
    server.start()
    first = PatientClient(server.address, "tml-first")
    expected = play(first, STEPS, 1, [])
    finish(first)
    soaked = Soak(server, seconds, expected)

    def restart() -> None:
        server.kill_both()
        server.start()

    with ThreadPoolExecutor(TENANTS + 3) as pool:
        works = [pool.submit(soaked.killer, pause, [server.kill_engine, server.kill_engine, restart])]
        works += [pool.submit(soaked.tenant, number) for number in range(TENANTS)]
        works += [pool.submit(soaked.vandal), pool.submit(soaked.watcher)]
        for work in works:  # the killer's trouble is everybody's, so it is told first
            work.result()
    server.stop()
    return soaked


def check(soaked: Soak, folder: Path, stories: int) -> None:
    assert soaked.stories >= stories and soaked.mistakes > 10
    left = left_behind(folder)
    assert set(left.values()) == {0}, left


def test_a_short_soak(tmp_path: Path) -> None:
    check(soak(tmp_path, seconds=8, pause=3), tmp_path, stories=4)


@pytest.mark.long
def test_ten_minutes(tmp_path: Path) -> None:
    soaked = soak(tmp_path, seconds=600, pause=25)
    check(soaked, tmp_path, stories=200)
    third = len(soaked.resident) // 3
    print(f"{soaked.stories} stories, {soaked.mistakes} mistakes, MiB: {[n // MIB for n in soaked.resident[::60]]}")
    assert max(soaked.resident[-third:]) - max(soaked.resident[third : 2 * third]) < MOST_GROWTH
