"""The published figures: C-LoRA on SkyRL, eight experiments of ten steps on one node of eight GPUs. Seconds."""

from __future__ import annotations

from dataclasses import dataclass

from motet.planner.makespan import Work


@dataclass(frozen=True)
class Published:
    """One row. `last` and `mean` are counted from the start of the whole: at N = 1 the mean experiment takes 4.5 times
    the 1,906 s of a single one, as it does where eight wait in line."""

    level: int
    last: float
    mean: float
    step: float


WORK = Work(experiments=8, steps=10)
TABLE = [
    Published(level=1, last=15244, mean=8575, step=191),
    Published(level=2, last=8818, mean=5460, step=215),
    Published(level=4, last=6131, mean=4562, step=303),
    Published(level=8, last=5433, mean=5249, step=500),
]
