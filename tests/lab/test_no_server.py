"""Servers that are not there, and one that does not start."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from motet.errors import BadConfig
from motet.lab.experiments.server import check_server


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("address", ["not a url", "http://127.0.0.1:{port}"])
def test_nobody_answers(address: str) -> None:
    with pytest.raises(BadConfig, match="motet serve"):
        check_server(address.format(port=_closed_port()))


def test_the_command_tells_it_and_ends_with_2(tmp_path: Path) -> None:
    import typer

    from motet.lab.experiments.command import run

    app = typer.Typer()
    app.command()(run)
    file = tmp_path / "one.toml"
    file.write_text("steps = 1\n")
    told = CliRunner().invoke(app, [str(file), "--base-url", f"http://127.0.0.1:{_closed_port()}"])
    assert told.exit_code == 2
    assert "no server answers" in told.output
    file.write_text("stepz = 1\n")
    told = CliRunner().invoke(app, [str(file)])
    assert told.exit_code == 2
    assert "did you mean 'steps'?" in told.output
