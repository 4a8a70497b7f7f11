"""Values as listings give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from motet.service.wire.schemas import Cursor

Item = TypeVar("Item")


def text_values(metadata: dict[str, Any]) -> dict[str, str]:
    """User metadata as the SDK reads it back: every value a string."""
    return {key: value if isinstance(value, str) else str(value) for key, value in metadata.items()}


def page(items: Sequence[Item], offset: int, limit: int) -> Sequence[Item]:
    """One page of a listing."""
    return items[max(offset, 0) : max(offset, 0) + max(limit, 0)]


def cursor(items: Sequence[Item], offset: int, limit: int) -> Cursor:
    """Where that page lies."""
    return Cursor(offset=max(offset, 0), limit=max(limit, 0), total_count=len(items))
