"""A catalog's database: connected, brought to this server's schema, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import ConnectionPoolEntry

from motet.errors import BadConfig

MIGRATIONS = Path(__file__).with_name("migrations")
BACKUP_HINT = "start the Motet that wrote it, or newer, or choose another data folder"


def open_database(url: str) -> Engine:
    """A database with the newest schema. BadConfig: unreachable, no driver, or written by a newer Motet."""
    try:
        engine = create_engine(make_url(url))
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise BadConfig(f"the database {url!r} cannot be used ({error}): see docs/service.md for the forms") from None
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _make_safe)
    try:
        _upgrade(engine)
    except DBAPIError as error:
        raise BadConfig(f"the database {engine.url!r} cannot be opened: {error.orig}") from None
    return engine


def _make_safe(connection: Any, _: ConnectionPoolEntry) -> None:
    """A commit is on the disk when it returns; readers and the writer do not block each other."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def _upgrade(engine: Engine) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    with engine.begin() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
        if found is not None and found not in known:
            raise BadConfig(f"the catalog has the schema {found!r}, which this Motet does not know: {BACKUP_HINT}")
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
