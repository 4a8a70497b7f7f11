"""API keys and tenants' quotas: written by `motet keys`, also while a server runs on the same data folder; read by it.

A change is committed first; then the file `keys` in the data folder grows by a byte. The server compares the file's
size at each request and reads the tables again only where it has grown, so a change counts from the next request on.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import DBAPIError

from motet.errors import BadConfig, NotFound
from motet.service.catalog.changes import StorageFault
from motet.service.catalog.opening import open_database
from motet.service.catalog.tables import keys, tenants

KEY_BYTES = 32  # of chance in a key
SHOWN = 12  # a key's first characters are its id: `tml-` and 8 more, which leaves over 200 bits unknown

QuotaValues = Mapping[str, Any]  # numbers by quota


@dataclass(frozen=True)
class StoredKey:
    """A key as the database knows it: everything but the key."""

    id: str
    digest: str
    tenant: str
    created: datetime
    revoked: datetime | None


def digest_of(key: str) -> str:
    """What is kept of a key. Keys are long and random, so a plain hash cannot be turned back."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


class KeyStore:
    """The two tables. Raises StorageFault where the database does not answer."""

    def __init__(self, data_dir: Path, url: str | None = None) -> None:
        """Open or create them. BadConfig: no such folder can be had, or the database cannot be opened."""
        try:
            data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadConfig(f"the data folder {data_dir} cannot be used ({error}): choose another --data-dir") from None
        self._bell = data_dir / "keys"
        self._database = open_database(url or f"sqlite:///{data_dir.resolve() / 'catalog.sqlite'}")

    def changes(self) -> int:
        """A number that is another one after each change: cheap, and without the database."""
        try:
            return os.stat(self._bell).st_size
        except FileNotFoundError:
            return 0

    def all(self) -> list[StoredKey]:
        """Every key that was ever made, oldest first, the revoked ones too."""
        with self._connected() as connection:
            found = connection.execute(select(keys).order_by(keys.c.created)).mappings()
            return [StoredKey(**row) for row in found]

    def quotas(self) -> dict[str, QuotaValues]:
        """By tenant: what is not the server's default."""
        with self._connected() as connection:
            return {row.name: row.quotas for row in connection.execute(select(tenants))}

    def add(self, tenant: str) -> str:
        """Make a key for a tenant, and give it: this is the only time that it is seen."""
        key = f"tml-{secrets.token_urlsafe(KEY_BYTES)}"
        values = {"id": key[:SHOWN], "digest": digest_of(key), "tenant": tenant, "created": _now(), "revoked": None}
        with self._changing() as connection:
            connection.execute(insert(keys).values(**values))
        return key

    def revoke(self, key_id: str) -> None:
        """Let a key in no more. NotFound: there is none with that id, or it was revoked before."""
        with self._changing() as connection:
            living = update(keys).where(keys.c.id == key_id, keys.c.revoked.is_(None))
            if connection.execute(living.values(revoked=_now())).rowcount == 0:
                raise NotFound(f"there is no key {key_id!r} in use: `motet keys list` shows them")

    def set_quotas(self, tenant: str, changes: Mapping[str, float | None]) -> QuotaValues:
        """Change some of a tenant's quotas, None gives the default back; gives all that differ now."""
        with self._changing() as connection:
            found = connection.execute(select(tenants.c.quotas).where(tenants.c.name == tenant)).scalar()
            values = {name: value for name, value in {**(found or {}), **changes}.items() if value is not None}
            if found is None:
                connection.execute(insert(tenants).values(name=tenant, quotas=values))
            else:
                connection.execute(update(tenants).where(tenants.c.name == tenant).values(quotas=values))
        return values

    def close(self) -> None:
        self._database.dispose()

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        try:
            with self._database.begin() as connection:
                yield connection
        except DBAPIError as error:
            raise StorageFault(f"the database does not answer: {error.orig}") from None

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """One transaction; a running server is told after it."""
        with self._connected() as connection:
            yield connection
        try:
            with self._bell.open("ab") as bell:
                bell.write(b".")
        except OSError as error:
            raise StorageFault(
                f"this is stored, but a running server does not know of it, since {self._bell} cannot be written "
                f"({error}): make room and change something else, or start the server again"
            ) from None


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
