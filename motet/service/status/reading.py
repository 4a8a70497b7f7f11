"""What a server tells of itself at /motet/v1/status, read over HTTP."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any, Literal

from motet.errors import BadConfig

TIMEOUT_SECONDS = 10.0
LANES = ("sampling", "training")
RATES = {  # what grows in the engine's numbers, and as what it is shown
    "sampled": "decoded_tokens",
    "prompt": "prompt_tokens",
}


@dataclass(frozen=True)
class Reading:
    """One answer, and when it came."""

    told: dict[str, Any]
    at: float = field(default_factory=time.monotonic)

    def engine(self, name: str) -> float:
        """One of the engine's numbers; 0 where it has told none yet."""
        return float(self.told["engine"].get(name, 0))

    def service(self, name: str) -> float:
        return float(self.told["service"].get(name, 0))


@dataclass(frozen=True)
class Pace:
    """What happened between two readings: tokens a second by kind, and parts of the time, 0 to 1."""

    tokens: dict[str, float]
    lanes: dict[str, float]  # at work
    tenants: dict[str, float]  # device time of a tenant's runs
    runs: dict[str, float]  # device time of own runs


def pace(before: Reading, now: Reading) -> Pace:
    """From two readings; an engine that was started again in between counts from nothing."""
    seconds = max(now.at - before.at, 1e-3)

    def grown(new: float, old: float) -> float:
        return (new - old if new >= old else new) / seconds

    tokens = {shown: grown(now.engine(name), before.engine(name)) for shown, name in RATES.items()}
    tokens["trained"] = grown(now.told["trained_tokens"], before.told["trained_tokens"])

    def shares(kind: Literal["tenant", "run"]) -> dict[str, float]:
        earlier, later = _device_seconds(before, kind), _device_seconds(now, kind)
        return {name: max(later[name] - earlier.get(name, 0.0), 0.0) / seconds for name in later}  # runs go

    busy = {lane: grown(*(one.engine(f"{lane}_busy_seconds") for one in (now, before))) for lane in LANES}
    return Pace(tokens, busy, shares("tenant"), shares("run"))


def _device_seconds(reading: Reading, kind: Literal["tenant", "run"]) -> dict[str, float]:
    return {one[kind]: float(one["device_seconds"]) for one in reading.told[f"{kind}s"]}


def read(base_url: str, api_key: str) -> Reading:
    """Ask the server. BadConfig: nobody there, or it refuses the key."""
    request = urllib.request.Request(f"{base_url.rstrip('/')}/motet/v1/status", headers={"X-API-Key": api_key})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            return Reading(json.load(answer))
    except urllib.error.HTTPError as error:
        raise BadConfig(f"{base_url} answers {error.code}: {_reason(error)}") from None
    except (OSError, ValueError) as error:
        raise BadConfig(f"no Motet server answers at {base_url} ({error}): give its --base-url") from None


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"{error.reason}; is it a Motet server?"
