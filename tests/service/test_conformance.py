"""The handed conformance client, with the real SDK, against a real server on the tiny model it comes with.

All that the file holds must run: one that is skipped, or left out, fails here.
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


def test_all_of_it_passes(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pytest", "--timeout=150", "-p", "no:cacheprovider", f"--rootdir={HANDED}"]
    done = subprocess.run(
        [*command, str(HANDED / "tinker_conformance.py")],
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    held, passed = (re.search(pattern, done.stdout) for pattern in (r"collected (\d+) items\n", r"(\d+) passed"))
    assert held is not None and passed is not None and passed[1] == held[1], done.stdout[-6000:]
    assert "failed" not in done.stdout and "skipped" not in done.stdout, done.stdout[-6000:]
