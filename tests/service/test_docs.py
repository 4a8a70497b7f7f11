"""docs/service.md tells every route, every flag and every key of user_metadata, and none that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import typer.main

from motet.cli import app as commands
from motet.engine.types import BaseInfo
from motet.service.http.app import create_app
from motet.service.http.service import Service
from motet.service.http.settings import ServiceSettings
from motet.service.http.supervisor import Supervisor

ROOT = Path(__file__).parents[2]
TOLD = (ROOT / "docs" / "service.md").read_text()


def no_engine(connection: object) -> BaseInfo:
    raise AssertionError("this test starts no engine")


def test_every_route_is_told() -> None:
    app = create_app(Service(Supervisor(no_engine), ServiceSettings()))
    schema = app.openapi()
    there = {f"{method.upper()} {path}" for path, methods in schema["paths"].items() for method in methods}
    told = set(re.findall(r"`((?:GET|POST|PUT|DELETE) /\S+)`", TOLD))
    assert told == there | {f"GET {app.openapi_url}"}
    assert all(method.get("description") for methods in schema["paths"].values() for method in methods.values())


def test_every_flag_is_told() -> None:
    serve = typer.main.get_command(commands).commands["serve"]  # type: ignore[attr-defined]
    there = {option for parameter in serve.params for option in parameter.opts}
    assert set(re.findall(r"^\| `(--[a-z-]+)`", TOLD, re.MULTILINE)) == there - {"--help"}


def test_every_metadata_key_is_told() -> None:
    sources = "".join(file.read_text() for file in (ROOT / "motet" / "service").rglob("*.py"))
    there = set(re.findall(r'"(motet\.[a-z_]+)"', sources))
    assert set(re.findall(r"`(motet\.[a-z_]+)`", TOLD)) == there


def test_the_bounds_told_are_the_defaults() -> None:
    settings = ServiceSettings()
    assert f"up to {settings.poll_seconds:.0f} s" in TOLD
    assert f"above {settings.max_body_bytes // 1024**2} MiB" in TOLD
    assert f"{settings.max_pending:,} requests" in TOLD
    assert settings.max_pending_bytes == settings.max_result_bytes == 1024**3
    assert f"{settings.keep_seconds / 60:.0f} minutes" in TOLD
