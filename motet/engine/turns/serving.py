"""Answers that somebody waits for come first, within a part of device time.

A bucket of credit: device time of anybody fills it by that part, time that the sampling lane works while such answers
are on their way empties it. While it holds something they come first: in a step, and their lane before the other.
With none left they stand among everybody else, as the policy says.
"""

from __future__ import annotations

from motet.engine.types import Lane

MOST_CREDIT = 1.0  # seconds of device time that may be saved up
MOST_DEBT = 0.1  # and that may be owed: whoever answers alone owes nothing to those who come later


class ServingFirst:
    """The bucket. `part`: of device time, 0 to 1."""

    def __init__(self, part: float) -> None:
        self.part = part
        self.waiting = 0  # requests on their way
        self.seconds = 0.0  # of device time that answers have had
        self._credit = MOST_CREDIT if part else 0.0

    @property
    def first(self) -> bool:
        """Do they come before everybody now?"""
        return self.waiting > 0 and self._credit > 0

    def charge(self, lane: Lane, seconds: float, served: bool) -> None:
        """A piece of work has been done; `served`: for an answer."""
        self.seconds += seconds if served else 0.0
        spent = seconds if served or (self.waiting and lane == "sampling") else 0.0
        self._credit = min(max(self._credit + self.part * seconds - spent, -MOST_DEBT), MOST_CREDIT)
