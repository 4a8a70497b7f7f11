"""The published figures: C-LoRA on SkyRL, eight experiments of ten steps on one node of eight GPUs.

Seconds. At N = 1 the mean experiment is 4.5 times a single one's 1,906 s: times are counted from the start of the
whole, the waiting for one's turn included.
"""

from __future__ import annotations

from motet.planner.makespan import Waiting, Work

WORK = Work(experiments=8, steps=10)
TABLE = [
    Waiting(level=1, last=15244, mean=8575, first=1906, step=191),
    Waiting(level=2, last=8818, mean=5460, first=2150, step=215),
    Waiting(level=4, last=6131, mean=4562, first=3030, step=303),
    Waiting(level=8, last=5433, mean=5249, first=5000, step=500),
]
"""`first` is not published: ten steps."""
