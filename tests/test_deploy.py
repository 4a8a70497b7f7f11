"""What deploy/ and the Dockerfile ask of Motet is there. Neither image nor unit is run here."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer.main
import yaml
from typer.core import TyperGroup

from motet.cli import app
from motet.service.http.serving import load

ROOT = Path(__file__).parent.parent
UNIT = ROOT / "deploy" / "motet.service"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())


def docker_command() -> list[str]:
    found = re.search(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert found is not None
    command: list[str] = json.loads(found[1])
    return command


def unit_command() -> list[str]:
    found = re.search(r"^ExecStart=\S+/motet (.*)$", UNIT.read_text(), re.MULTILINE)
    assert found is not None
    return shlex.split(found[1])


def commands_told() -> list[list[str]]:
    """Those that stand in comments for people to type."""
    files = (ROOT / "Dockerfile", UNIT, ROOT / "deploy" / "compose.yaml")
    told = [re.findall(r"^#.*\bmotet (keys .*)$", file.read_text(), re.MULTILINE) for file in files]
    return [shlex.split(one) for found in told for one in found]


COMMANDS = [docker_command(), unit_command(), shlex.split(COMPOSE["services"]["motet"]["command"]), *commands_told()]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_is_one_of_ours(words: list[str]) -> None:
    """It is parsed by the command line itself, which refuses a flag that it does not know."""
    command = typer.main.get_command(app)
    while isinstance(command, TyperGroup):
        command, words = command.commands[words[0]], words[1:]
    command.make_context("motet", list(words))


def test_the_settings_file_is_one() -> None:
    settings = load(ROOT / "deploy" / "motet.toml", {})
    assert f"StateDirectory={settings.service.data_dir.name}" in UNIT.read_text()
    stop = re.search(r"TimeoutStopSec=(\d+)", UNIT.read_text())
    assert stop is not None and settings.service.drain_seconds + 20 < int(stop[1]), "a drain is not cut short"


def test_the_environment_is_read() -> None:
    environment = COMPOSE["services"]["motet"]["environment"]
    serve = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    read = {parameter.envvar for parameter in serve.params if parameter.envvar}
    assert set(environment) <= read
    assert set(re.findall(r"MOTET_[A-Z]+(?:_[A-Z]+)*", UNIT.read_text())) <= read


def test_an_empty_environment_gives_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """As compose sets it where nobody did."""
    monkeypatch.setenv("MOTET_API_KEYS", "")
    serve = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    assert not serve.make_context("serve", []).params["api_key"]


def test_the_image_takes_what_is_here() -> None:
    copied = [word for line in re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.MULTILINE) for word in line.split()]
    let_in = (ROOT / ".dockerignore").read_text().splitlines()
    for name in copied:
        assert (ROOT / name).exists() and f"!{name}" in let_in, name
    assert 'postgres = ["psycopg' in (ROOT / "pyproject.toml").read_text()


def test_the_unit_is_well_formed(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd here")
    unit = tmp_path / "motet.service"
    unit.write_text(UNIT.read_text().replace("/opt/motet/bin/motet", "/bin/true"))
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    assert str(unit) not in verified.stderr and "motet.service" not in verified.stderr, verified.stderr
