"""What may be asked of the catalog, in plain words; `catalog` turns it into SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Values = Mapping[str, Any]  # by column


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
    """Statements that hold together, files (by name) that stand before them, and files that go after them."""

    statements: Sequence[Statement] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    gone: Sequence[str] = ()
