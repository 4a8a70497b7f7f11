"""The settings file of `motet serve`: what it says holds, flags win over it, and mistakes are told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from motet.engine.settings import EngineSettings
from motet.errors import BadConfig
from motet.logs import LogSettings
from motet.service.http.pinned import pin_dtype, with_pinned_dtype
from motet.service.http.serving import load
from motet.service.http.settings import ServiceSettings

FILE = """
data_dir = "/tmp/motet-here"
[engine]
model = "somewhere/model"
threads = 1
apart = ["training"]
[service]
port = 8123
keep_seconds = 60
tls_cert = "cert.pem"
tls_key = "key.pem"
[service.quotas]
runs = 3
[log]
format = "json"
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "motet.toml"
    file.write_text(text)
    return file


def test_without_a_file_the_defaults_hold() -> None:
    settings = load(None, {})
    assert (settings.engine, settings.service, settings.log) == (EngineSettings(), ServiceSettings(), LogSettings())


def test_a_file_is_read_and_flags_win(tmp_path: Path) -> None:
    flags = {"engine": {"threads": 2}, "service": {"port": 0}, "log": {}}
    settings = load(written(tmp_path, FILE), flags)
    assert settings.engine.data_dir == settings.service.data_dir == Path("/tmp/motet-here")
    assert settings.engine.model == "somewhere/model"
    assert (settings.engine.threads, settings.engine.apart) == (2, ("training",))
    assert (settings.service.port, settings.service.keep_seconds) == (0, 60.0)
    assert settings.service.tls_cert == Path("cert.pem")
    assert settings.service.quotas.runs == 3
    assert settings.service.quotas.stored_bytes == ServiceSettings().quotas.stored_bytes
    assert settings.log == LogSettings("json", "info")
    assert load(written(tmp_path, FILE), {"data_dir": tmp_path}).service.data_dir == tmp_path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[servise]", "unknown key 'servise'; did you mean 'service'?"),
        ("[service]\nprot = 1", "unknown key 'prot' in [service]; did you mean 'port'?"),
        ("[engine]\nkv_cache = 1", "unknown key 'kv_cache' in [engine]; did you mean 'kv_cache_bytes'?"),
        ("[service.quotas]\nrun = 1", "unknown key 'run' in [service.quotas]; did you mean 'runs'?"),
        ("[service]\nquotas = 3", "write [service.quotas] as a section"),
        ("[log]\nxyz = 1", "unknown key 'xyz' in [log]; known are format, level"),
        ("[log]\nformat = 'xml'", "log.format: Input should be 'text' or 'json'"),
        ("[service]\nport = 'eighty'", "service.port: Input should be a valid integer"),
        ("[service]\nport = 123456", "there is no port 123456"),
        ("[service]\ntls_cert = 'a'", "tls_cert and tls_key belong together"),
        ("[service.quotas]\nruns = 0", "the quota runs must be a number above 0"),
        ("[engine]\napart = ['nothing']", "apart knows sampling, training, cores"),
        ("[service]\ndata_dir = 'x'", "write it above the sections"),
        ("engine = 3", "write [engine] as a section"),
        ("data_dir = 3", "data_dir: "),
        ("[engine", "is not TOML"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadConfig) as refused:
        load(written(tmp_path, text), {})
    assert told in str(refused.value) and "motet.toml" in str(refused.value)


def test_a_flag_hides_no_mistake_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="port"):
        load(written(tmp_path, "[service]\nport = -1"), {"service": {"port": 0}})


def test_the_command_tells_it_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "motet.cli", "serve", "--config", str(tmp_path / "none.toml")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr == f"error: there is no settings file {tmp_path / 'none.toml'}\n"


def test_the_dtype_that_was_chosen_first_stays(tmp_path: Path) -> None:
    open_choice, told = EngineSettings(), EngineSettings(dtype="float32")
    assert with_pinned_dtype(open_choice, tmp_path) == open_choice
    pin_dtype(tmp_path, "bfloat16")
    pin_dtype(tmp_path, "float32")  # a later engine, told so for once
    assert with_pinned_dtype(open_choice, tmp_path).dtype == "bfloat16"
    assert with_pinned_dtype(told, tmp_path) == told
    (tmp_path / "dtype").write_text("float64")
    with pytest.raises(BadConfig, match="damaged.*--dtype"):
        with_pinned_dtype(open_choice, tmp_path)
