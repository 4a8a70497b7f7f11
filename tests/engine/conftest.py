"""A small random model, made once, and engines on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.engine.settings import EngineSettings
from tests.engine.engines import OpenEngine, opener
from tests.tiny import make_tiny_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models"), "qwen3")


@pytest.fixture
def engine_on(tiny_model: Path, tmp_path: Path) -> OpenEngine:
    """open(**settings) -> a context with an engine on the tiny model."""
    settings = EngineSettings(
        model=str(tiny_model), dtype="float32", kv_cache_bytes=8 * 1024**2, host_bytes=256 * 1024**2
    )
    return opener(settings, tmp_path)
