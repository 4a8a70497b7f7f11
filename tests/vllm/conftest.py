"""One engine of each kind on one small random model; without vLLM every test here is skipped.

vLLM's kernels for CPUs want heads of 32, 64, 80, ... : the tiny Qwen3 has them of 32 here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from motet.engine.core.engine import Engine
from motet.engine.opening import open_engine
from motet.engine.settings import EngineSettings
from tests.tiny import make_tiny_model


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> EngineSettings:
    pytest.importorskip("vllm", reason="vLLM is not installed: make test-vllm")
    return EngineSettings(
        model=str(make_tiny_model(tmp_path_factory.mktemp("models"), "qwen3", head_dim=32)),
        dtype="float32",
        max_rank=32,
        kv_cache_bytes=64 * 1024**2,
        host_bytes=256 * 1024**2,
    )


@pytest.fixture(scope="session")
def own(settings: EngineSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Our own sampler."""
    yield from _opened(settings, tmp_path_factory.mktemp("own"), "local")


@pytest.fixture(scope="session")
def vllm(settings: EngineSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """vLLM in this process."""
    yield from _opened(settings, tmp_path_factory.mktemp("vllm"), "vllm")


def _opened(settings: EngineSettings, folder: Path, sampler: str) -> Iterator[Engine]:
    from dataclasses import replace

    engine = open_engine(replace(settings, data_dir=folder, sampler=sampler))  # type: ignore[arg-type]
    yield engine
    engine.close()
