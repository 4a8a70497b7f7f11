"""What each tenant chose of its own records, where it is not the server's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from motet.service.catalog.catalog import Catalog
from motet.service.catalog.changes import Add, Change, Set


@dataclass(frozen=True)
class Recording:
    """A tenant's choice."""

    store: bool = True
    keep_days: float | None = None  # of all its answers, where that is less than the server's


class Recordings:
    """Everybody's choices, in memory and written down."""

    def __init__(self, catalog: Catalog, rows: Iterable[Mapping[str, Any]]) -> None:
        self._catalog = catalog
        self._chosen = {row["tenant"]: Recording(row["store"], row["keep_days"]) for row in rows}

    def of(self, tenant: str) -> Recording:
        return self._chosen.get(tenant, Recording())

    def shorter(self) -> Iterator[tuple[str, float]]:
        """Tenants who keep their records for so many days only."""
        yield from [(tenant, one.keep_days) for tenant, one in self._chosen.items() if one.keep_days is not None]

    async def choose(self, tenant: str, chosen: Recording) -> None:
        """It counts from the next answer on."""
        values = {"store": chosen.store, "keep_days": chosen.keep_days}
        key = {"tenant": tenant}
        known = tenant in self._chosen
        written = Set("recording", key, values) if known else Add("recording", {**key, **values})
        await self._catalog.write(Change([written]))
        self._chosen[tenant] = chosen
