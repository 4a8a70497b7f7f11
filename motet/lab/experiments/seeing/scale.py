"""From values to places in a picture, and the round numbers beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
TICKS = 4  # about as many


@dataclass(frozen=True)
class Scale:
    """Values from low to high lie between the places `first` and `last`."""

    low: float
    high: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        part = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.first + part * (self.last - self.first)

    @property
    def ticks(self) -> list[float]:
        """Round numbers within."""
        step = round_step((self.high - self.low) / TICKS)
        begin = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(begin, math.floor(self.high / step + 1e-9) + 1)]


def round_step(least: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is not below."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(one * power for one in STEPS if one * power >= least * (1 - 1e-9))


def bounds(values: Iterable[float], shares: bool = False) -> tuple[float, float]:
    """What an axis shows: from one round number to another; of shares, all from 0 to 1, where they are no more."""
    finite = [one for one in values if math.isfinite(one)]
    if not finite or (shares and min(finite) >= 0 and max(finite) <= 1):
        return 0.0, 1.0
    low, high = min(finite + [0.0] * (min(finite) >= 0)), max(finite)
    if low == high:
        return (low, low + 1) if low == 0 else (low - abs(low) / 2, low + abs(low) / 2)
    step = round_step((high - low) / TICKS)
    return math.floor(low / step) * step, math.ceil(high / step) * step


def label(value: float) -> str:
    """Short, without a minus at nothing."""
    return f"{value + 0.0:.3g}" if value else "0"
