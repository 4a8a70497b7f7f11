"""The catalog in PostgreSQL: a real one, killed and started again, as the server on it."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from motet.service.catalog.catalog import Catalog
from motet.service.catalog.changes import Add, Change, Set, StorageFault
from motet.service.catalog.keys import KeyStore, digest_of
from motet.service.catalog.tables import metadata
from tests.service.client import Client
from tests.service.running import Restartable
from tests.service.test_durability import STEPS, kill_both, play, played_through_kills
from tests.tiny import make_tiny_model

pytestmark = [
    pytest.mark.skipif(shutil.which("initdb") is None, reason="needs PostgreSQL's server programs on the PATH"),
]
psycopg = pytest.importorskip("psycopg", reason="needs motet[postgres]")

USER = "postgres" if os.getuid() == 0 else None  # its server refuses to run as root


class Postgres:
    """A database server of our own, on a socket in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        if USER is not None:
            shutil.chown(folder, USER)
        self._call("initdb", "--no-sync", "--auth=trust", "--username=motet", "-D", str(folder / "data"))

    def url(self, name: str) -> str:
        return f"postgresql+psycopg://motet@/{name}?host={self.folder}"

    def start(self) -> None:
        command = ["postgres", "-D", str(self.folder / "data"), "-k", str(self.folder), "-c", "listen_addresses="]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, user=USER, start_new_session=True)
        deadline = time.monotonic() + 20
        while self._refuses():
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.05)

    def database(self, name: str) -> str:
        """The address of a new, empty database."""
        with psycopg.connect(self._address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def kill(self) -> None:
        """As the machine's power would: every process of it at once."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def _address(self) -> str:
        return f"host={self.folder} user=motet dbname=postgres"

    def _refuses(self) -> bool:
        try:
            psycopg.connect(self._address).close()
        except psycopg.OperationalError:
            return True
        return False

    def _call(self, *command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, user=USER, cwd="/")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    folder = Path(f"/tmp/motet-postgres-{os.getpid()}")  # a socket's path must be short, and another user's to enter
    server = Postgres(folder)
    server.start()
    yield server
    server.kill()
    shutil.rmtree(folder)


def test_from_nothing_to_the_newest_schema(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.database("fresh")
    Catalog(tmp_path, url).close()
    there = inspect(create_engine(url))
    assert set(metadata.tables) <= set(there.get_table_names())
    for name, table in metadata.tables.items():
        assert {column["name"] for column in there.get_columns(name)} == set(table.columns.keys())


def test_keys(postgres: Postgres, tmp_path: Path) -> None:
    store = KeyStore(tmp_path, postgres.database("doors"))
    key = store.add("choir")
    assert [(one.tenant, one.digest, one.revoked) for one in store.all()] == [("choir", digest_of(key), None)]
    assert store.set_quotas("choir", {"runs": 3.0}) == {"runs": 3.0}
    store.revoke(key[:12])
    assert store.all()[0].revoked is not None
    store.close()


def step(number: int) -> Change:
    row = {"run": "run", "number": number, "adam": {}, "gradient": "file"}
    return Change([Add("steps", row), Set("steps", {"run": "run"}, {"gradient": f"after {number}"})])


def test_a_database_that_dies_at_any_moment_has_every_change_once(postgres: Postgres, tmp_path: Path) -> None:
    async def write_through_kills(catalog: Catalog) -> None:
        draw, written = random.Random(5), 0
        for _ in range(3):
            writing = [asyncio.create_task(catalog.write(step(written + i))) for i in range(40)]
            await asyncio.sleep(draw.random() * 0.02)
            await asyncio.to_thread(postgres.kill)
            await asyncio.to_thread(postgres.start)
            await asyncio.gather(*writing)
            written += len(writing)

    catalog = Catalog(tmp_path, postgres.database("mortal"))
    asyncio.run(write_through_kills(catalog))
    assert sorted(row["number"] for row in catalog.rows("steps")) == list(range(120))
    catalog.close()


def test_what_the_database_refuses_is_told_at_once(postgres: Postgres, tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, postgres.database("strict"))
    asyncio.run(catalog.write(step(1)))
    with pytest.raises(StorageFault):
        asyncio.run(asyncio.wait_for(catalog.write(step(1)), 5))
    catalog.close()


def test_a_server_on_it_goes_on_after_both_were_killed(postgres: Postgres, tmp_path: Path) -> None:
    """One story twice, once while the server, then the database are killed: the same results."""
    model = make_tiny_model(tmp_path / "model", "qwen3")
    server = Restartable(model, tmp_path, ("--dtype", "float32", "--database", postgres.database("served")))
    server.start()
    undisturbed = play(Client(server.address, "tml-one"), STEPS, 1, [])

    def kill_database(_: Restartable) -> None:
        postgres.kill()
        postgres.start()

    played_through_kills(server, undisturbed, random.Random(2), [kill_both, kill_database])
    server.stop()
