"""What is recorded, and for how long."""

from __future__ import annotations

import re
from dataclasses import dataclass

from motet.errors import BadConfig

GIB = 1024**3


@dataclass(frozen=True)
class RecordSettings:
    """Everything one may choose about records of answers and feedback."""

    __pydantic_config__ = {"extra": "forbid"}

    enabled: bool = True  # answers are recorded at all
    keep_days: float = 30.0  # an answer without feedback
    keep_judged_days: float = 365.0  # one with feedback, and the feedback
    most_bytes: int = 4 * GIB  # of answers; beyond, the oldest without feedback go, then the oldest
    most_waiting: int = 1024  # records on their way to the disk; more are dropped
    feedback_per_minute: float = 60.0  # from one source; what comes faster is put in quarantine
    redact: tuple[str, ...] = ()  # regular expressions: what they match is blacked out before it is written

    def __post_init__(self) -> None:
        """BadConfig: a bound that is none, or no regular expression."""
        for name in ("keep_days", "keep_judged_days", "most_bytes", "most_waiting", "feedback_per_minute"):
            if not getattr(self, name) > 0:
                raise BadConfig(f"{name} of [service.records] must be above 0, not {getattr(self, name)}")
        for pattern in self.redact:
            try:
                re.compile(pattern)
            except re.error as error:
                raise BadConfig(f"{pattern!r} of redact is no regular expression: {error}") from None
