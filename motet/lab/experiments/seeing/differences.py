"""What experiments do differently: the settings that are not the same in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from motet.lab.experiments.seeing.folder import SeenExperiment

Settings = dict[str, Any]  # by name; those of a section as section.name


def flat(config: dict[str, Any]) -> Settings:
    """One level: a section's settings under section.name. Left out: the name, and an environment that nobody enters."""
    found: Settings = {}
    unused = "environment" if config.get("data") is not None else None
    for key, value in config.items():
        if key == unused:
            continue
        if isinstance(value, dict):
            found |= {f"{key}.{inner}": one for inner, one in value.items()}
        elif key != "name":
            found[key] = value
    return found


def differing(experiments: Sequence[SeenExperiment]) -> list[str]:
    """Names of the settings that are not equal throughout, in the order of the first config that has them."""
    configs = [flat(one.config) for one in experiments]
    names = dict.fromkeys(name for config in configs for name in config)
    return [name for name in names if any(config.get(name) != configs[0].get(name) for config in configs)]


def shared(experiments: Sequence[SeenExperiment]) -> Settings:
    """What is the same in all."""
    first, apart = flat(experiments[0].config), set(differing(experiments))
    return {name: value for name, value in first.items() if name not in apart}


def shown(value: object) -> str:
    """A setting's value, as a person would write it."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def families(experiments: Sequence[SeenExperiment]) -> dict[str, list[SeenExperiment]]:
    """Experiments that differ by nothing but their seed, under what sets them apart from others."""
    apart = [name for name in differing(experiments) if name != "seed"]
    found: dict[str, list[SeenExperiment]] = {}
    for one in experiments:
        settings = flat(one.config)
        key = ", ".join(f"{name.rpartition('.')[2]} {shown(settings.get(name))}" for name in apart)
        found.setdefault(key, []).append(one)
    return {members[0].name if len(members) == 1 else key or "all seeds": members for key, members in found.items()}
