"""`motet serve` with settings that cannot be: told at once, before an engine is started or torch imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from motet.engine.settings import EngineSettings
from motet.errors import BadConfig
from motet.service.http.serving import load


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        ({"model": "/nope"}, "there is no folder /nope"),
        ({"model": "./nope"}, r"there is no folder \./nope"),
        ({"threads": -1}, "threads is -1"),
        ({"threads": 10_000}, "threads is 10000 and this machine has"),
        ({"threads": 1, "lanes": "split"}, "at least two cores"),
        ({"pass_rows": 0}, "pass_rows is 0: choose 1 or more"),
        ({"kv_cache_bytes": -1}, "kv_cache_bytes is -1"),
        ({"longest_turn_wait": float("nan")}, "longest_turn_wait is nan"),
        ({"apart": ["nothing"]}, "apart knows"),
    ],
)
def test_settings_that_cannot_be_are_told(engine: dict[str, object], told: str) -> None:
    with pytest.raises(BadConfig, match=told):
        load(None, {"engine": engine})


def test_a_folder_is_looked_for_where_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    for name in ("./model", "model", str(tmp_path / "model"), "a-name/of-the-hub"):
        assert EngineSettings(name).model == name


def test_the_command_tells_it_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from motet.cli import app\n"
        "try:\n    app(['serve', '--model', '/nope'])\n"
        "finally:\n    assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: there is no folder /nope: choose another model\n"
    assert not list(tmp_path.iterdir())
