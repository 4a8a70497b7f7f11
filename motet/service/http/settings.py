"""The service's settings: few, each said once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from motet.errors import BadConfig
from motet.service.feedback.settings import RecordSettings
from motet.service.http.quotas import Quotas

MIB = 1024**2


@dataclass(frozen=True)
class ServiceSettings:
    """Everything one may choose about the HTTP side. The bounds keep memory bounded whatever arrives."""

    data_dir: Path = Path("motet-data")
    database: str | None = None  # an SQLAlchemy URL, such as postgresql+psycopg://…; None: SQLite in the data folder
    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one
    api_keys: tuple[str, ...] = ()  # none: open, on loopback only
    poll_seconds: float = 30.0  # how long a poll of a future waits; the SDK gives up after 45
    max_body_bytes: int = 64 * MIB  # of one request, unpacked
    max_pending: int = 16_384  # requests on their way, of everybody together
    max_pending_bytes: int = 1024 * MIB  # their bodies
    max_result_bytes: int = 1024 * MIB  # results that are kept; then the oldest of who leaves the most lying go
    keep_seconds: float = 900.0  # how long a result is kept once it was read
    unread_seconds: float = 86_400.0  # how long a result is kept that nobody comes for
    rest_seconds: float = 900.0  # a session that is silent for so long leaves memory; it stands up when it is asked for
    forget_days: float = 30.0  # a session that is silent for so long is finished
    drain_seconds: float = 10.0  # how long work in hand may go on once the server is asked to stop
    tls_cert: Path | None = None  # a certificate chain in PEM, with tls_key: HTTPS instead of HTTP
    tls_key: Path | None = None
    quotas: Quotas = Quotas()  # of each tenant that has none of its own
    records: RecordSettings = RecordSettings()  # of answers, and feedback to them

    def __post_init__(self) -> None:
        """BadConfig where no such port can be, or half of a TLS pair is missing."""
        if not 0 <= self.port <= 65_535:
            raise BadConfig(f"there is no port {self.port}: choose one up to 65535, or 0 for any free one")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise BadConfig("tls_cert and tls_key belong together: give both, or none")
