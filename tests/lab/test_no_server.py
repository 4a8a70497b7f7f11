"""Servers that are not there, one that does not let us in, and folders that are taken."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from motet.errors import BadConfig, EngineFault
from motet.lab.experiments.door import choose_model
from motet.lab.experiments.server import background_server, check_server, forget_server
from motet.lab.experiments.sweep import run_file


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


def test_a_key_that_is_not_let_in_and_a_model_that_is_not_served(tmp_path: Path) -> None:
    with background_server("pocket", tmp_path, Console(quiet=True), ("--api-key", "tml-right")) as address:
        assert choose_model(address, "tml-right", None) == "pocket"
        for key, told in (("tml-wrong", "TINKER_API_KEY"), ("no key", "TINKER_API_KEY")):
            with pytest.raises(BadConfig, match=told):
                choose_model(address, key, None)
        with pytest.raises(BadConfig, match="there: pocket"):
            choose_model(address, "tml-right", "another")
        assert (tmp_path / "server").is_dir()
    forget_server(tmp_path)  # its data stays until whoever started it has no more use for it
    assert [path.name for path in tmp_path.iterdir()] == ["server.log"]


def test_a_server_that_does_not_start(tmp_path: Path) -> None:
    with (
        pytest.raises(EngineFault, match="there is no folder /nowhere"),
        background_server("/nowhere", tmp_path, Console(quiet=True)),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["server.log"]


def test_what_an_earlier_sweep_measured_is_left_alone(tmp_path: Path) -> None:
    file, out = tmp_path / "one.toml", tmp_path / "out"
    file.write_text("steps = 1\n")
    out.mkdir()
    (out / "summary.json").write_text("{}")
    with pytest.raises(BadConfig, match="choose another --out"):
        run_file(file, None, out, Console(quiet=True))
    with pytest.raises(BadConfig, match="choose another --out"):
        run_file(file, None, file / "below", Console(quiet=True))
    assert [path.name for path in out.iterdir()] == ["summary.json"]
