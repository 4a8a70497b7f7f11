"""The catalog's writing thread: a change that no database takes fails for its own reasons, those beside it do not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import BigInteger, Integer

from motet.service.catalog.catalog import Catalog, StorageFault
from motet.service.catalog.changes import Add, Change
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
