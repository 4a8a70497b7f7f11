"""Reading from the catalog while the server runs: what is too much to be held in memory."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Engine, Table, func, select
from sqlalchemy.exc import DBAPIError

from motet.service.catalog.changes import Find, StorageFault, Values
from motet.service.catalog.tables import metadata

Row = dict[str, Any]


def find(database: Engine, wanted: Find) -> list[Row]:
    """The rows. StorageFault: the database does not answer."""
    table = metadata.tables[wanted.table]
    statement = select(*(table.c[name] for name in wanted.columns or table.c.keys())).where(*conditions(table, wanted))
    if wanted.order is not None:
        statement = statement.order_by(table.c[wanted.order])
    try:
        with database.connect() as connection:
            return [dict(row) for row in connection.execute(statement.limit(wanted.limit)).mappings()]
    except DBAPIError as error:
        raise StorageFault(f"the database does not answer: {error.orig}") from None


def most(database: Engine, table: str, column: str) -> int:
    """The highest number in a column; 0 where there is none."""
    with database.connect() as connection:
        return int(connection.execute(select(func.max(metadata.tables[table].c[column]))).scalar() or 0)


def conditions(table: Table, wanted: Find) -> list[ColumnElement[bool]]:
    return [
        *matching(table, wanted.where),
        *(table.c[name] > value for name, value in wanted.above.items()),
        *(table.c[name] < value for name, value in wanted.below.items()),
    ]


def matching(table: Table, where: Values) -> list[ColumnElement[bool]]:
    """Equal; a list matches each of its values."""
    return [
        table.c[name].in_(value) if isinstance(value, list) else table.c[name] == value for name, value in where.items()
    ]
