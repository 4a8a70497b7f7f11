"""What a tracker is: one experiment's numbers go there as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from motet.lab.experiments.progress import Accuracy, StepMetrics

OWN_NAMES = frozenset({"step", "seconds", "outcomes", "algorithm", "findings"})  # told in a way of their own


@dataclass(frozen=True)
class Subject:
    """Whose numbers they are."""

    sweep: str
    experiment: str
    config: Mapping[str, Any]  # every setting, by its name
    folder: Path  # the experiment's own
    done: int  # steps of an earlier life


class Tracker(Protocol):
    """Opened for one Subject, closed when its experiment has ended."""

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """After a step, from 1; 0 is before the first. Steps never go back."""
        ...

    def close(self) -> None: ...


class Trackers:
    """All that one experiment reports to; none is fine."""

    def __init__(self, several: Iterable[Tracker] = ()) -> None:
        self._several = list(several)

    def step(self, metrics: StepMetrics) -> None:
        numbers = dict(numbers_of(metrics))
        for one in self._several:
            one.log(metrics.step, numbers)

    def accuracy(self, step: int, accuracy: Accuracy) -> None:
        for one in self._several:
            one.log(step, {"held_out/mean": accuracy.mean, "held_out/error": accuracy.error})

    def close(self) -> None:
        for one in self._several:
            one.close()


def numbers_of(metrics: StepMetrics) -> Iterator[tuple[str, float]]:
    """Every number of a step by its name; what is not known, or words, is left out."""
    for one in fields(metrics):
        value = getattr(metrics, one.name)
        if one.name not in OWN_NAMES and isinstance(value, int | float):
            yield one.name, float(value)
    yield "findings", float(len(metrics.findings))
    parts = {"seconds": asdict(metrics.seconds), "outcomes": metrics.outcomes, "algorithm": metrics.algorithm}
    for part, values in parts.items():
        yield from ((f"{part}/{name}", float(value)) for name, value in values.items())
