"""The catalog: everything that must survive, written by one thread, read when a server starts.

The thread takes all changes that wait and
commits them at once (group commit): under load the disk is asked to sync once for many requests.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import queue
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Engine, Executable, Table, delete, insert, select, update
from sqlalchemy.exc import StatementError

from motet.errors import BadConfig, EngineFault
from motet.service.catalog.changes import Add, Change, Remove, Set, Statement, Values
from motet.service.catalog.files import Files
from motet.service.catalog.opening import open_database
from motet.service.catalog.tables import metadata


class StorageFault(EngineFault):
    """What was asked could not be made safe, so it has not happened: no room on the disk, or no database."""


@dataclass(frozen=True, eq=False)
class Waiting:
    """A change on its way, and who waits for it."""

    change: Change
    done: Future[None]


class Catalog:
    """The database and the files beside it. One server holds a data folder at a time."""

    def __init__(self, data_dir: Path, url: str | None = None) -> None:
        """Open or create it. BadConfig: held by another server, unreachable, or of a newer schema."""
        self._lock = _hold(data_dir)
        self.files = Files(data_dir / "bodies")
        self._database: Engine = open_database(url or f"sqlite:///{data_dir.resolve() / 'catalog.sqlite'}")
        self._queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="catalog", daemon=True)
        self._thread.start()
        self.commits = 0
        self.changes = 0

    async def write(self, change: Change) -> None:
        """Return once the change is safe. StorageFault where it could not be made so: then nothing of it was."""
        waiting = Waiting(change, Future())
        self._queue.put(waiting)
        await asyncio.shield(asyncio.wrap_future(waiting.done))

    def rows(self, table: str, where: Values | None = None, without: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """The rows that match, for a start and for recovery; nothing in between reads."""
        source = metadata.tables[table]
        statement = select(*(column for column in source.columns if column.name not in without))
        with self._database.connect() as connection:
            found = connection.execute(statement.where(*_matching(source, where or {}))).mappings()
            return [dict(row) for row in found]

    def close(self) -> None:
        """Write what waits, and let the data folder go."""
        self._queue.put(None)
        self._thread.join()
        self._database.dispose()
        os.close(self._lock)

    # -- the writing thread ------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        while (first := self._queue.get()) is not None:
            group = [first]
            while not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    self._commit(group)
                    return
                group.append(following)
            self._commit(group)

    def _commit(self, group: list[Waiting]) -> None:
        """All at once; where that fails, one by one, so that a change fails for its own reasons only."""
        error = self._try(group)
        if error is None:
            for waiting in group:
                waiting.done.set_result(None)
        elif len(group) == 1:
            group[0].done.set_exception(StorageFault(f"this could not be stored and has not happened: {error}"))
        else:
            for waiting in group:
                self._commit([waiting])

    def _try(self, group: list[Waiting]) -> BaseException | None:
        try:
            for waiting in group:
                self.files.write(waiting.change.files)
            with self._database.begin() as connection:
                for waiting in group:
                    for statement in waiting.change.statements:
                        connection.execute(_sql(statement))
            for waiting in group:
                for name in waiting.change.gone:
                    self.files.remove(name)
        except (OSError, OverflowError, ValueError) as error:  # the disk; a number or a text that no database takes
            return error
        except StatementError as error:
            return error.orig or error
        self.commits += 1
        self.changes += len(group)
        return None


def _sql(statement: Statement) -> Executable:
    table = metadata.tables[statement.table]
    match statement:
        case Add(_, values):
            return insert(table).values(**values)
        case Set(_, where, values):
            return update(table).where(*_matching(table, where)).values(**values)
        case Remove(_, where):
            return delete(table).where(*_matching(table, where))


def _matching(table: Table, where: Values) -> list[ColumnElement[bool]]:
    return [
        table.c[name].in_(value) if isinstance(value, list) else table.c[name] == value for name, value in where.items()
    ]


def _hold(data_dir: Path) -> int:
    """Lock a data folder for as long as this process lives."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        handle = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadConfig(f"the data folder {data_dir} cannot be used ({error}): choose another --data-dir") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise BadConfig(f"the data folder {data_dir} is in use by another server: choose another --data-dir") from None
    return handle
