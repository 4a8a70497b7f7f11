"""Blacking out, before anything is written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

BLACK = "[redacted]"


class Redaction:
    """What an operator's patterns match becomes BLACK, in every text of a JSON value."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [re.compile(pattern) for pattern in patterns]

    def value(self, value: Any) -> Any:
        """The value, every text of it blacked out; keys of objects stay."""
        match value:
            case str():
                for pattern in self._patterns:
                    value = pattern.sub(BLACK, value)
                return value
            case list() | tuple():
                return [self.value(one) for one in value]
            case dict():
                return {key: self.value(one) for key, one in value.items()}
        return value
