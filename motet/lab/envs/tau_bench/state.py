"""One episode's view of the database: records are copied when they are first changed, and only those are compared."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from motet.lab.envs.tau_bench.data import Record, Table
from motet.lab.envs.tools import ToolError

ONE = {"users": "User", "products": "Product", "orders": "Order"}


class State:
    """The shop's database as it is in one episode."""

    def __init__(self, tables: Mapping[Table, Mapping[str, Record]]) -> None:
        self._tables = tables
        self._changed: dict[Table, dict[str, Record]] = {}

    def look(self, table: Table, key: str) -> Record:
        """A record to read. ToolError: there is none."""
        found = self._changed.get(table, {}).get(key) or self._tables[table].get(key)
        if found is None:
            raise ToolError(f"{ONE[table]} not found")
        return found

    def change(self, table: Table, key: str) -> Record:
        """A record to write to. ToolError: there is none."""
        record = self.look(table, key)
        return self._changed.setdefault(table, {}).setdefault(key, copy.deepcopy(record))

    def keys(self, table: Table) -> list[str]:
        return list(self._tables[table])

    def differences(self) -> dict[tuple[Table, str], Record]:
        """The records that are not what they were at first."""
        return {
            (table, key): record
            for table, records in self._changed.items()
            for key, record in records.items()
            if record != self._tables[table][key]
        }

    def same_as(self, other: State) -> bool:
        """Did both end alike?"""
        return self.differences() == other.differences()
