"""What `motet serve` may be told, from its settings file and its flags: a flag wins over the file."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from motet.engine.settings import EngineSettings
from motet.errors import BadConfig
from motet.logs import LogSettings
from motet.service.http.settings import ServiceSettings
from motet.settings_file import Table, read_toml, unknown_key

DATA_DIR = "data_dir"  # of the service and of the engine: it stands above the sections


@dataclass(frozen=True)
class ServingSettings:
    """A server's settings, one field a section of the file."""

    engine: EngineSettings
    service: ServiceSettings
    log: LogSettings


SECTIONS: dict[str, type[Any]] = {"engine": EngineSettings, "service": ServiceSettings, "log": LogSettings}


def load(file: Path | None, flags: Table) -> ServingSettings:
    """Settings of a file, of none, and of flags in the same form. BadConfig: no file, unknown key, wrong value."""
    if file is None:
        return parse(flags)
    table = read_toml(file, "settings file")
    try:
        parse(table)  # the file's own mistakes are told as such, also where a flag would hide them
    except BadConfig as error:
        raise BadConfig(f"{file}: {error}") from None
    return parse(_merged(table, flags))


def parse(table: Table) -> ServingSettings:
    """From a table to settings. BadConfig."""
    for key, value in table.items():
        if key not in (*SECTIONS, DATA_DIR):
            raise BadConfig(unknown_key(key, {*SECTIONS, DATA_DIR}))
        if key in SECTIONS and not isinstance(value, dict):
            raise BadConfig(f"write [{key}] as a section")
    common = {DATA_DIR: table[DATA_DIR]} if DATA_DIR in table else {}
    return ServingSettings(**{name: _section(name, table.get(name, {}), common) for name in SECTIONS})


def keys_of(kind: type[Any]) -> set[str]:
    """The keys that a section may hold, given what it is read into."""
    return {field.name for field in fields(kind)} - {DATA_DIR}


def inner_sections(kind: type[Any]) -> dict[str, type[Any]]:
    """Sections within a section: [service.quotas]."""
    return {field.name: type(field.default) for field in fields(kind) if is_dataclass(field.default)}


def _section(name: str, table: Table, common: Table) -> Any:
    kind = SECTIONS[name]
    if DATA_DIR in table:
        raise BadConfig(f"{DATA_DIR} is of the whole server: write it above the sections, not in [{name}]")
    _check_keys(name, table, kind)
    wanted = {key: value for key, value in common.items() if key in {field.name for field in fields(kind)}}
    try:
        return TypeAdapter(kind).validate_python({**wanted, **table})
    except ValidationError as error:
        told = [_told(name, one["loc"], one.get("ctx", {}).get("error", one["msg"])) for one in error.errors()]
        raise BadConfig("; ".join(told)) from None


def _check_keys(name: str, table: Table, kind: type[Any]) -> None:
    inner = inner_sections(kind)
    for key, value in table.items():
        if key not in keys_of(kind):
            raise BadConfig(unknown_key(key, keys_of(kind), name))
        if key in inner:
            if not isinstance(value, dict):
                raise BadConfig(f"write [{name}.{key}] as a section")
            _check_keys(f"{name}.{key}", value, inner[key])


def _told(section: str, place: tuple[int | str, ...], why: object) -> str:
    """One mistake; where several fields together are wrong, it says itself which."""
    if not place:
        return str(why)
    within = [] if place[0] == DATA_DIR else [section]
    return f"{'.'.join([*within, *map(str, place)])}: {why}"


def _merged(table: Table, flags: Table) -> Table:
    inside = {name: {**table.get(name, {}), **flags.get(name, {})} for name in SECTIONS}
    return {**table, **flags, **inside}
