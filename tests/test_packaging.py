"""What is imported is declared, what is declared is explained and pinned, and what the code reads is shipped."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DECLARED = {canonicalize_name(Requirement(line).name) for line in PROJECT["project"]["dependencies"]}
PACKAGE_OF = {"google": "protobuf", "starlette": "fastapi"}  # where the names differ, or one brings the other
# Imported by their owners alone, when they are there.
OPTIONAL = {"vllm", "ray", "triton", "pyrage", "peft", "tensorboardX", "trackio", "verifiers", "wandb"}


def imported_libraries() -> set[str]:
    found = set()
    for file in (ROOT / "motet").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
    return {name.partition(".")[0] for name in found} - set(sys.stdlib_module_names) - {"motet"}


def test_what_is_imported_is_declared_and_what_is_declared_is_used() -> None:
    imported = {canonicalize_name(PACKAGE_OF.get(name, name)) for name in imported_libraries() - OPTIONAL}
    assert imported - DECLARED == set()
    assert DECLARED - imported - {"gguf"} == set()  # gguf is imported by transformers


def test_every_dependency_has_its_reason_in_the_docs() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    told = {canonicalize_name(name.strip()) for row in rows for name in row.split(",")}
    assert told - {"package", "-"} == DECLARED


def test_every_dependency_is_pinned_within_its_range() -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    pins = dict(line.partition("==")[::2] for line in lines)
    pins = {canonicalize_name(name): version for name, version in pins.items()}
    development = PROJECT["project"]["optional-dependencies"]["dev"]
    for requirement in map(Requirement, [*PROJECT["project"]["dependencies"], *development]):
        version = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} against {version}"


def test_files_that_are_not_python_are_shipped() -> None:
    """Every source of the kernels and every file of the pocket model matches the package data."""
    data = PROJECT["tool"]["setuptools"]["package-data"]
    for package, patterns in data.items():
        folder = ROOT / Path(*package.split("."))
        files = [file for file in folder.iterdir() if file.is_file() and file.suffix not in (".py", ".so")]
        left_out = [file.name for file in files if not any(file.match(pattern) for pattern in patterns)]
        assert left_out == [], f"{package}: add them to package-data in pyproject.toml"
