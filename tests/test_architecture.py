"""Every import against the table of docs/architecture.md, and the limit on the length of a file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "motet").rglob("*.py"))

ENGINE = ("engine.types",)
COMMON = ("errors", "logs", "settings_file", "__version__")
DOOR = ("engine.types", "engine.settings", "engine.process", "engine.core.requests", "engine.core.channel")
# room -> what it may import; a room may always import itself and COMMON. The longest matching name is a file's room.
ROOMS: dict[str, tuple[str, ...]] = {
    "errors": (),
    "logs": (),
    "settings_file": (),
    "engine.types": (),
    "engine.settings": ENGINE,
    "engine.ops": ENGINE,
    "engine.turns": ENGINE,
    "engine.models": (*ENGINE, "engine.ops"),
    "engine.adapters": (*ENGINE, "engine.models", "engine.ops"),
    "engine.sampler": (*ENGINE, "engine.turns", "engine.adapters", "engine.models", "engine.ops"),
    "engine.trainer": (*ENGINE, "engine.adapters", "engine.models", "engine.ops"),
    "engine.backends": (
        *ENGINE,
        "engine.turns",
        "engine.sampler",
        "engine.trainer",
        "engine.adapters",
        "engine.models",
        "engine.ops",
    ),
    "engine.core": (*ENGINE, "engine.settings", "engine.turns", "engine.backends.base"),
    "engine.opening": ("engine",),
    "engine.process": ("engine",),
    "service.wire": (*ENGINE, "engine.core.requests"),
    "service.catalog": (),
    "service.feedback": ("service.catalog",),
    "service.http": (*DOOR, "chat", "service.wire", "service.catalog", "service.feedback"),
    "chat": (),
    "client": (),
    "lab.envs": ("chat",),
    "lab.algorithms": ("chat", "lab.envs"),
    "lab.experiments": ("chat", "lab.envs", "lab.algorithms"),
    "lab.loop": ("chat", "client", "lab.envs", "lab.algorithms", "lab.experiments"),
    "planner": (),
    "bench": ("engine", "lab"),
    "__main__": ("cli",),
    "cli": ("client", "engine", "service", "lab", "planner", "bench"),
    "engine": (),
    "service": (),
    "lab": (),
    "": (),
}
# Libraries that only their owners know.
OWNERS: dict[str, tuple[str, ...]] = {
    "vllm": ("engine.backends.vllm",),
    "ray": ("engine.backends",),
    "triton": ("engine.ops",),
    "fastapi": ("service.http",),
    "prometheus_client": ("service.http",),
    "sqlalchemy": ("service.catalog",),
    "tinker": ("lab", "service.wire", "bench", "cli"),
}
TORCHLESS = ("service", "engine.types", "engine.settings", "engine.core.requests", "engine.core.channel")


def name_of(file: Path) -> str:
    parts = file.relative_to(ROOT / "motet").with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports_of(file: Path) -> set[str]:
    """Full names of everything imported, under TYPE_CHECKING or inside a function too."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: write imports in full"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def within(name: str, room: str) -> bool:
    return name == room or name.startswith(f"{room}.") or room == ""


def room_of(name: str) -> str:
    return max((room for room in ROOMS if within(name, room)), key=len)


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_file_imports_only_what_its_room_may(file: Path) -> None:
    name, room = name_of(file), room_of(name_of(file))
    assert room or name == "", f"{file} belongs to no room: add it to docs/architecture.md and to ROOMS"
    for imported in imports_of(file):
        if imported.startswith("motet."):
            inner = imported.removeprefix("motet.")
            allowed = (room, *COMMON, *ROOMS[room])
            assert any(within(inner, one) for one in allowed), f"{name} may not import {imported}"
        library = imported.partition(".")[0]
        owners = OWNERS.get(library, ("",))
        assert any(within(name, owner) for owner in owners), f"{name} may not import {library}"
        if library == "torch":
            assert not any(within(name, one) for one in TORCHLESS), f"{name} must do without torch"


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_file_is_never_long(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 500
