"""Trackers by name. What is not installed is told before anything is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from motet.errors import BadConfig
from motet.lab.experiments.trackers.base import Subject, Tracker, Trackers

Opener = Callable[[Subject], Tracker]
Tracking = Callable[[Subject], Trackers]


def _tensorboard() -> Opener:
    from motet.lab.experiments.trackers.tensorboard import TensorBoard

    return TensorBoard


def _trackio() -> Opener:
    from motet.lab.experiments.trackers.trackio import Trackio

    return Trackio


def _wandb() -> Opener:
    from motet.lab.experiments.trackers.wandb import WeightsAndBiases

    return WeightsAndBiases


LOADERS: dict[str, Callable[[], Opener]] = {"tensorboard": _tensorboard, "trackio": _trackio, "wandb": _wandb}


def choose(names: Sequence[str]) -> Tracking:
    """Opens all trackers of these names for a subject. BadConfig: there is none of a name, or it is not installed."""
    openers = [_load(name) for name in names]
    return lambda subject: Trackers(opener(subject) for opener in openers)


def _load(name: str) -> Opener:
    if name not in LOADERS:
        raise BadConfig(f"there is no tracker {name!r}; there are {', '.join(LOADERS)}")
    try:
        return LOADERS[name]()
    except ModuleNotFoundError as error:
        raise BadConfig(
            f"{error.name} is not installed: pip install 'motet[{name}]', or leave out --track {name}"
        ) from None
