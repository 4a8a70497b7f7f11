"""The service's settings: few, each said once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MIB = 1024**2


@dataclass(frozen=True)
class ServiceSettings:
    """Everything one may choose about the HTTP side. The bounds keep memory bounded whatever arrives."""

    data_dir: Path = Path("motet-data")
    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one
    api_keys: tuple[str, ...] = ()  # none: open, on loopback only
    poll_seconds: float = 30.0  # how long a poll of a future waits; the SDK gives up after 45
    max_body_bytes: int = 64 * MIB  # of one request, unpacked
    max_pending: int = 16_384  # requests on their way, of everybody together
    max_pending_bytes: int = 1024 * MIB  # their bodies
    max_result_bytes: int = 1024 * MIB  # results that are kept
    keep_seconds: float = 900.0  # how long a result is kept once it was read
