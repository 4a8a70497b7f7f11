"""TOML files that people write: read whole, checked against a vocabulary, mistakes told with the name that is near."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from motet.errors import BadConfig

Table = dict[str, Any]


def read_toml(file: Path, what: str) -> Table:
    """The file's table. BadConfig: no such file (`what` says of which kind), or no TOML."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadConfig(f"there is no {what} {file}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"the {what} {file} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"{file} is not TOML: {error}") from None


def unknown_key(key: str, known: Iterable[str], section: str | None = None) -> str:
    """What to say of a key that is not known: the nearest one, else all there are."""
    names = sorted(known)
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    where = "" if section is None else f" in [{section}]"
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
    return f"unknown key {key!r}{where}; {hint}"
