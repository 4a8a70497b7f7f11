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
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Executable, delete, insert, select, update
from sqlalchemy.exc import DBAPIError, OperationalError, StatementError

from motet.errors import BadConfig
from motet.service.catalog.changes import Add, Change, Find, Remove, Set, Statement, StorageFault, Values
from motet.service.catalog.files import Files
from motet.service.catalog.finding import find, matching, most
from motet.service.catalog.opening import open_database
from motet.service.catalog.tables import metadata

RECONNECT_SECONDS = 15.0  # how long a database that went away is waited for
RECONNECT_PAUSE = 0.2


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
        self._fault: BaseException | None = None  # of the thread's own; nothing is written any more
        self._thread = threading.Thread(target=self._work, name="catalog", daemon=True)
        self._thread.start()
        self.commits = 0
        self.changes = 0

    async def write(self, change: Change) -> None:
        """Return once the change is safe. StorageFault where it could not be made so: then nothing of it was."""
        waiting = Waiting(change, Future())
        self._queue.put(waiting)
        if self._fault is not None:
            self._give_up()
        await asyncio.shield(asyncio.wrap_future(waiting.done))

    def rows(self, table: str, where: Values | None = None, without: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """The rows that match, for a start and for recovery."""
        source = metadata.tables[table]
        statement = select(*(column for column in source.columns if column.name not in without))
        with self._database.connect() as connection:
            found = connection.execute(statement.where(*matching(source, where or {}))).mappings()
            return [dict(row) for row in found]

    async def find(self, wanted: Find) -> list[dict[str, Any]]:
        """What stands in the database now. StorageFault: it does not answer."""
        return await asyncio.to_thread(find, self._database, wanted)

    def most(self, table: str, column: str) -> int:
        """The highest number in a column; 0 where there is none."""
        return most(self._database, table, column)

    def close(self) -> None:
        """Write what waits, and let the data folder go."""
        self._queue.put(None)
        self._thread.join()
        self._database.dispose()
        os.close(self._lock)

    # -- the writing thread ------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._write_all()
        except BaseException as error:
            self._fault = error
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Nobody waits for a thread that has died."""
        fault = StorageFault(f"the catalog stopped on a fault of its own ({self._fault!r}): start the server again")
        with suppress(queue.Empty):
            while (waiting := self._queue.get_nowait()) is not None:
                waiting.done.set_exception(fault)

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
        try:
            error = self._try(group)
        except BaseException as fault:
            for waiting in group:
                waiting.done.set_exception(StorageFault(f"this may not have been stored: {fault!r}"))
            raise
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
            erase = any(waiting.change.erase for waiting in group) and self._database.dialect.name == "sqlite"
            self._execute([statement for waiting in group for statement in waiting.change.statements], erase)
        except (OSError, OverflowError, ValueError) as error:  # the disk; a number or a text that no database takes
            return error
        except StatementError as error:
            return error.orig or error
        self.commits += 1
        self.changes += len(group)
        with suppress(OSError):  # the change stands; what no row names goes at the next start
            for waiting in group:
                for name in waiting.change.gone:
                    self.files.remove(name)
        return None

    def _execute(self, statements: list[Statement], erase: bool) -> None:
        """One transaction. A database that went away meanwhile is waited for, and nothing is done twice: what has one
        new row has them all, and statements without a new row may be repeated."""
        deadline = time.monotonic() + RECONNECT_SECONDS
        lost = False
        while True:
            try:
                with self._database.connect() as connection, _erasing(connection, erase), connection.begin():
                    if not (lost and _happened(connection, statements)):
                        for statement in statements:
                            connection.execute(_sql(statement))
                return
            except DBAPIError as error:
                away = self._database.dialect.name != "sqlite" and _went_away(error)
                if not away or time.monotonic() > deadline:
                    raise
                lost = True
                time.sleep(RECONNECT_PAUSE)


@contextmanager
def _erasing(connection: Connection, erase: bool) -> Iterator[None]:
    """What is deleted in here is overwritten, and goes from the log of changes too (as long as nobody reads it)."""
    if not erase:
        yield
        return
    connection.exec_driver_sql("PRAGMA secure_delete=ON")
    connection.commit()
    yield
    connection.exec_driver_sql("PRAGMA secure_delete=OFF")
    connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.commit()


def _went_away(error: DBAPIError) -> bool:
    """The connection was lost, or none could be made: not a fault of what was asked. SQLite's full disk looks alike."""
    return error.connection_invalidated or (isinstance(error, OperationalError) and error.statement is None)


def _happened(connection: Connection, statements: list[Statement]) -> bool:
    """Is the first new row there? A transaction is there as a whole."""
    for added in statements:
        if isinstance(added, Add):
            table = metadata.tables[added.table]
            key = {column.name: added.values[column.name] for column in table.primary_key.columns}
            return connection.execute(select(table).where(*matching(table, key))).first() is not None
    return False


def _sql(statement: Statement) -> Executable:
    table = metadata.tables[statement.table]
    match statement:
        case Add(_, values):
            return insert(table).values(**values)
        case Set(_, where, values):
            return update(table).where(*matching(table, where)).values(**values)
        case Remove(_, where):
            return delete(table).where(*matching(table, where))


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
