"""Random numbers by place, not by order: (seed, sample index, position) gives one uniform number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniforms(
    seeds: NDArray[np.uint64], indices: NDArray[np.uint64], positions: NDArray[np.uint64]
) -> NDArray[np.float64]:
    """One number in [0, 1) for each place; the same for the same place, whatever else is drawn."""
    with np.errstate(over="ignore"):
        x = _mix(seeds + _STEP)
        x = _mix(x ^ _mix(indices + _STEP))
        x = _mix(x ^ _mix(positions + _STEP * np.uint64(2)))
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53
