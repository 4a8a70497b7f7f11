"""A small random model of each family, made once, and an engine on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from motet.engine.core.engine import Engine
from motet.engine.opening import open_engine
from motet.engine.settings import EngineSettings
from tests.tiny import make_tiny_model

OpenEngine = Callable[..., "contextmanager[Engine]"]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models"), "qwen3")


@pytest.fixture
def engine_on(tiny_model: Path, tmp_path: Path) -> Callable[..., object]:
    """open(**settings) -> a context with an engine on the tiny model."""
    opened = iter(range(100))

    @contextmanager
    def opener(**changes: object) -> Iterator[Engine]:
        settings = EngineSettings(
            model=str(tiny_model),
            data_dir=tmp_path / f"engine-{next(opened)}",
            dtype="float32",
            kv_cache_bytes=8 * 1024**2,
            host_bytes=256 * 1024**2,
        )
        engine = open_engine(replace(settings, **changes))  # type: ignore[arg-type]
        try:
            yield engine
        finally:
            engine.close()

    return opener
