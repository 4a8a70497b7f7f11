"""docs/service.md tells every route and every key of user_metadata, docs/operation.md every flag, setting and metric of
`motet serve`, and none that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer.main
from typer.core import TyperCommand, TyperGroup

from motet.cli import app as commands
from motet.service.http.app import ROOMS
from motet.service.http.gate import LONGEST_WAIT
from motet.service.http.limits import MAX_DEPTH, MAX_GROUPS, MAX_JSON_BYTES
from motet.service.http.serving import SECTIONS, inner_sections, keys_of
from motet.service.http.settings import ServiceSettings
from motet.service.wire.bounds import MAX_PARTS

ROOT = Path(__file__).parents[2]
TOLD = (ROOT / "docs" / "service.md").read_text()
OPERATION = (ROOT / "docs" / "operation.md").read_text()


def test_every_route_is_told() -> None:
    routes = [(prefix, route) for prefix, rooms in ROOMS.items() for room in rooms for route in room.router.routes]
    there = {f"{method} {prefix}{route.path_format}" for prefix, route in routes for method in route.methods}
    told = set(re.findall(r"`((?:GET|POST|PUT|DELETE) /\S+)`", TOLD))
    assert told == there | {"GET /motet/v1/openapi.json"}
    assert all(route.endpoint.__doc__ for _, route in routes)


def flags_of(command: TyperCommand | TyperGroup) -> set[str]:
    """A command's flags; of a group, those of all its commands."""
    inner = command.commands.values() if isinstance(command, TyperGroup) else ()
    own = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    return own.union(*map(flags_of, inner)) - {"--help"}


def part(title: str) -> str:
    """The part of docs/operation.md under a heading."""
    return re.split(r"^## ", OPERATION.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]


def test_every_flag_is_told() -> None:
    every = typer.main.get_command(commands)
    assert isinstance(every, TyperGroup)
    for name in ("serve", "status", "keys", "serving", "feedback"):
        told = set(re.findall(r"^\| `(--[a-z-]+)`", part(f"Flags of `motet {name}`"), re.MULTILINE))
        assert told == flags_of(every.commands[name]), name


def sections(name: str, kind: type[Any]) -> Iterator[tuple[str, type[Any]]]:
    """A section of the settings file and those within it."""
    yield name, kind
    for inner, inner_kind in inner_sections(kind).items():
        yield from sections(f"{name}.{inner}", inner_kind)


def test_every_setting_is_told_with_its_default() -> None:
    there = [one for name, kind in SECTIONS.items() for one in sections(name, kind)]
    assert len(there) > len(SECTIONS)
    for section, kind in there:
        rows = re.findall(r"^\| `(\w+)` \| `?([^|`]*)`? \|", part(f"`[{section}]`"), re.MULTILINE)
        assert sorted(key for key, _ in rows) == sorted(keys_of(kind) - set(inner_sections(kind))), section  # once
        defaults = {field.name: field.default for field in fields(kind)}
        for key, told in rows:
            assert told.strip() == toml(defaults[key]), f"{section}.{key}"


def toml(value: object) -> str:
    """A default as one would write it in the file; None is written by leaving the key out."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case tuple():
            return str(list(value))
        case str() | Path():
            return f'"{value}"'
        case float() | int():
            return f"{value:_}" if value >= 10_000 else str(value)
    raise AssertionError(f"how is {value!r} written?")


def test_every_metadata_key_is_told() -> None:
    sources = "".join(file.read_text() for file in (ROOT / "motet" / "service").rglob("*.py"))
    there = set(re.findall(r'"(motet\.[a-z_]+)"', sources))
    assert set(re.findall(r"`(motet\.[a-z_]+)`", TOLD)) == there


def test_the_bounds_told_are_the_defaults() -> None:
    settings = ServiceSettings()
    assert f"up to {settings.poll_seconds:.0f} s" in TOLD
    assert f"above {settings.max_body_bytes // 1024**2} MiB" in TOLD
    assert f"{settings.max_pending:,} requests" in TOLD
    assert f"JSON above {MAX_JSON_BYTES // 1024**2} MiB" in TOLD
    assert f"more than {MAX_DEPTH} levels or {MAX_GROUPS:,} lists and objects" in TOLD
    assert f"of more than {MAX_PARTS:,} parts" in TOLD and f"up to {LONGEST_WAIT:.0f} s, then get 429" in TOLD
    assert settings.max_pending_bytes == settings.max_result_bytes == 1024**3
    assert f"{settings.keep_seconds / 60:.0f} minutes" in TOLD
