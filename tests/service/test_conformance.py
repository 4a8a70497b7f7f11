"""The handed conformance client, with the real SDK, against a real server on the tiny model it comes with.

A conformance mark that loses a test fails here: as many must run as the file holds.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.running import serving

HANDED = Path(__file__).parents[3] / "shared" / "conformance"
KEYS = ("tml-conformance", "tml-somebody-else")
pytestmark = pytest.mark.skipif(not HANDED.is_dir(), reason=f"the handed conformance tests are not at {HANDED}")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("conformance")
    model = folder / "tiny"
    subprocess.run([sys.executable, str(HANDED / "make_tiny.py"), str(model)], check=True, capture_output=True)
    flags = [part for key in KEYS for part in ("--api-key", key)]
    with serving(model, folder, flags) as server:
        yield {
            **os.environ,
            "BASE_URL": server.address,
            "API_KEY": KEYS[0],
            "API_KEY2": KEYS[1],
            "MODEL": str(model),
            "VOCAB": "336",
            "STRICT": "1",
            "HF_HUB_OFFLINE": "1",
            "TINKER_TELEMETRY": "0",
            "OMP_NUM_THREADS": "1",
        }


def conformance(environment: dict[str, str], marks: str, *more: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "--timeout=150", "-p", "no:cacheprovider", "-m", marks, *more]
    done = subprocess.run(
        [*command, f"--rootdir={HANDED}", str(HANDED / "tinker_conformance.py")],
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    return done.stdout


def test_core_loss_and_sampling(environment: dict[str, str]) -> None:
    check_all_pass(environment, "core or loss or sampling")


def test_all_the_other_marks(environment: dict[str, str]) -> None:
    check_all_pass(environment, "not core and not loss and not sampling")


def check_all_pass(environment: dict[str, str], marks: str) -> None:
    held = re.search(r"(\d+)(?:/\d+)? tests collected", conformance(environment, marks, "--collect-only"))
    assert held is not None and int(held[1]) > 0
    told = conformance(environment, marks)
    passed = re.search(r"(\d+) passed", told)
    assert passed is not None and passed[1] == held[1], told[-6000:]
    assert "failed" not in told and "skipped" not in told, told[-6000:]
