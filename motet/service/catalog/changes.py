"""What may be asked of the catalog, in plain words; `catalog` and `finding` turn it into SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from motet.errors import EngineFault

Values = Mapping[str, Any]  # by column


class StorageFault(EngineFault):
    """What was asked could not be made safe, so it has not happened: no room on the disk, or no database."""


@dataclass(frozen=True)
class Add:
    """A new row."""

    table: str
    values: Values


@dataclass(frozen=True)
class Set:
    """New values in the rows that match; a list among `where` matches each of its values."""

    table: str
    where: Values
    values: Values


@dataclass(frozen=True)
class Remove:
    """The rows that match go."""

    table: str
    where: Values


Statement = Add | Set | Remove


@dataclass(frozen=True)
class Change:
    """Statements that hold together, files (by name) that stand before them, and files that go after them.

    erase: what goes is overwritten in the database's file too, where that is ours (SQLite); it costs more.
    """

    statements: Sequence[Statement] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    gone: Sequence[str] = ()
    erase: bool = False


@dataclass(frozen=True)
class Find:
    """Rows that match: equal to `where` (a list matches each of its values), beyond `above`, before `below`."""

    table: str
    where: Values = field(default_factory=dict)
    above: Values = field(default_factory=dict)
    below: Values = field(default_factory=dict)
    order: str | None = None
    limit: int | None = None
    columns: Sequence[str] = ()  # none: all
