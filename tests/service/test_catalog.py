"""The catalog's writing thread: a change that no database takes fails for its own reasons, those beside it do not."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import BigInteger, Integer

from motet.errors import BadConfig
from motet.service.catalog.catalog import RECONNECT_SECONDS, Catalog
from motet.service.catalog.changes import Add, Change, StorageFault
from motet.service.catalog.tables import metadata


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    made = Catalog(tmp_path)
    yield made
    made.close()


def step(run: str, number: int, adam: object = None) -> Change:
    return Change([Add("steps", {"run": run, "number": number, "adam": adam or {}, "gradient": "file"})])


UNFIT = [
    step("wrong", 2**63),
    step("half a character \ud800", 1),
    step("wrong", 1, adam=b"no JSON"),
    step("good", 0),  # it is there already
    Change(files={"a" * 300: b"x"}),
]


def test_what_cannot_be_stored_fails_alone(catalog: Catalog) -> None:
    async def write_all() -> list[BaseException | None]:
        await catalog.write(step("good", 0))
        changes = [change for wrong in UNFIT for change in (wrong, step("good", UNFIT.index(wrong) + 1))]
        return await asyncio.wait_for(asyncio.gather(*map(catalog.write, changes), return_exceptions=True), 20)

    ended = asyncio.run(write_all())
    assert [type(error) for error in ended[::2]] == [StorageFault] * len(UNFIT)
    assert ended[1::2] == [None] * len(UNFIT)
    assert len(catalog.rows("steps")) == len(UNFIT) + 1


def test_every_whole_number_has_64_bits() -> None:
    """SQLite's have them anyway; PostgreSQL's INTEGER has 32."""
    columns = [column for table in metadata.tables.values() for column in table.columns]
    numbers = [column for column in columns if isinstance(column.type, Integer)]
    assert numbers and all(isinstance(column.type, BigInteger) for column in numbers)


def test_a_file_that_cannot_be_removed_does_not_undo_the_change(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "bodies" / "stuck.bin").mkdir()  # unlink refuses folders
    gone = Change([Add("steps", {"run": "run", "number": 1, "adam": {}, "gradient": "file"})], gone=("stuck",))
    asyncio.run(asyncio.wait_for(catalog.write(gone), 5))
    assert len(catalog.rows("steps")) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_a_thread_that_died(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(files: object) -> None:
        raise ZeroDivisionError

    async def write_twice() -> list[BaseException | None]:
        both = await asyncio.gather(catalog.write(step("a", 1)), catalog.write(step("a", 2)), return_exceptions=True)
        later = await asyncio.gather(catalog.write(step("a", 3)), return_exceptions=True)
        return [*both, *later]

    monkeypatch.setattr(catalog.files, "write", fail)
    ended = asyncio.run(asyncio.wait_for(write_twice(), 5))
    assert [type(error) for error in ended] == [StorageFault] * 3


def test_a_disk_that_takes_nothing_is_told_at_once(catalog: Catalog, tmp_path: Path) -> None:
    """A database that went away is waited for; a commit that finds no room is no such thing."""
    asyncio.run(catalog.write(step("a", 1)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "catalog.sqlite-wal").stat().st_size, limits[1]))
    try:
        with pytest.raises(StorageFault, match="has not happened"):
            asyncio.run(asyncio.wait_for(catalog.write(step("a", 2)), RECONNECT_SECONDS / 2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    asyncio.run(catalog.write(step("a", 2)))
    assert len(catalog.rows("steps")) == 2


def test_a_catalog_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    Catalog(tmp_path).close()
    with sqlite3.connect(tmp_path / "catalog.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'of tomorrow'")
    with pytest.raises(BadConfig, match="of tomorrow.*start the Motet that wrote it, or newer"):
        Catalog(tmp_path)
