"""Engines for tests, one after another, each with a data folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

from motet.engine.core.engine import Engine
from motet.engine.opening import open_engine
from motet.engine.settings import EngineSettings

OpenEngine = Callable[..., AbstractContextManager[Engine]]


def opener(settings: EngineSettings, folder: Path) -> OpenEngine:
    """open(**changes) -> a context with an engine on the settings, changed by name."""
    numbers = count()

    @contextmanager
    def opened(**changes: object) -> Iterator[Engine]:
        own = replace(settings, data_dir=folder / f"engine-{next(numbers)}")
        engine = open_engine(replace(own, **changes))  # type: ignore[arg-type]
        try:
            yield engine
        finally:
            engine.close()

    return opened
