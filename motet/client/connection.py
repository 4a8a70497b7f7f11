"""One key's way to a server. What may be sent twice is sent again where the server was busy or away."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal

import httpx

from motet.errors import BadConfig, BadRequest, Busy, EngineFault, MotetError, NotFound

LOCAL = "http://127.0.0.1:8000"
ANY_KEY = "tml-local"  # an open server takes every key that the SDK takes, and knows people by theirs
Method = Literal["GET", "POST", "PUT", "DELETE"]
ERRORS: Mapping[int, type[MotetError]] = {401: BadConfig, 404: NotFound, 429: Busy}
PAUSE, LONGEST_PAUSE = 0.2, 5.0  # seconds before it is sent again, doubled each time


class Connection:
    """Raises BadRequest, NotFound, BadConfig (the key), Busy and EngineFault, as the server says."""

    def __init__(self, base_url: str | None = None, api_key: str | None = None, patience: float = 60.0) -> None:
        """TINKER_BASE_URL and TINKER_API_KEY tell what is not given. patience: for so many seconds it tries again."""
        address = (base_url or os.environ.get("TINKER_BASE_URL", LOCAL)).rstrip("/")
        key = api_key or os.environ.get("TINKER_API_KEY", ANY_KEY)
        self._http = httpx.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=60.0)
        self._patience = patience

    def send(
        self,
        method: Method,
        route: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        once: bool = False,
    ) -> dict[str, Any]:
        """The answer's JSON. once: it must not be sent twice."""
        deadline, pause = time.monotonic() + self._patience, PAUSE
        asked = {key: value for key, value in (query or {}).items() if value is not None}
        while True:
            try:
                return _read(self._http.request(method, route, json=body, params=asked))
            except (Busy, EngineFault):
                if once or time.monotonic() + pause > deadline:
                    raise
            except httpx.TransportError as error:
                if once or time.monotonic() + pause > deadline:
                    raise EngineFault(f"no Motet server answers at {self._http.base_url} ({error})") from None
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read(answer: httpx.Response) -> dict[str, Any]:
    if answer.status_code < 400:
        told: dict[str, Any] = answer.json()
        return told
    kind = EngineFault if answer.status_code >= 500 else ERRORS.get(answer.status_code, BadRequest)
    raise kind(_reason(answer))


def _reason(answer: httpx.Response) -> str:
    """What the server says of it, in the form of either API."""
    try:
        error = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        return f"the server answered {answer.status_code} {answer.reason_phrase}; is it a Motet server?"
    return str(error["message"] if isinstance(error, dict) else error)
