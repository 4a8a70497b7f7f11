"""Links that open a checkpoint's files, to whoever holds one, until it ends: for downloads without a key."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlencode

from motet.errors import NotFound
from motet.service.http.registry import Checkpoint, now

LIFE = timedelta(hours=1)
SECRET_BYTES = 32
ARCHIVE = "archive.tar"  # no file of a checkpoint has this name: it stands for all of them


@dataclass(frozen=True)
class Link:
    """An address below the server's root, and when it ends."""

    url: str
    expires: datetime


class Links:
    """Made and checked with a secret of the data folder, so that they outlive a restart."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def make(self, saved: Checkpoint, file: str) -> Link:
        """A link to one file of a checkpoint (its path within the folder), or to ARCHIVE."""
        expires = (now() + LIFE).replace(microsecond=0)
        seconds = int(expires.timestamp())
        query = urlencode({"expires": seconds, "signature": self._signature(saved.run.id, saved.id, file, seconds)})
        return Link(f"motet/v1/files/{quote(f'{saved.run.id}/{saved.id}/{file}')}?{query}", expires)

    def check(self, run: str, checkpoint: str, file: str, expires: int, signature: str) -> None:
        """NotFound where the link was not made here, or has ended."""
        made = hmac.compare_digest(signature.encode(), self._signature(run, checkpoint, file, expires).encode())
        if not made or datetime.fromtimestamp(expires, UTC) <= now():
            raise NotFound("this link has ended, or was never made: ask for a new one")

    def _signature(self, run: str, checkpoint: str, file: str, expires: int) -> str:
        told = "\0".join((run, checkpoint, file, str(expires)))
        return hmac.new(self._secret, told.encode(), hashlib.sha256).hexdigest()


def open_secret(data_dir: Path) -> bytes:
    """The data folder's secret, made at the first start; nobody else on the machine may read it."""
    file = data_dir / "links.key"
    if not file.exists():
        data_dir.mkdir(parents=True, exist_ok=True)
        beside = data_dir / f"links.key~{secrets.token_hex(4)}"
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
            made.write(secrets.token_bytes(SECRET_BYTES))
            made.flush()
            os.fsync(made.fileno())
        beside.rename(file)
    return file.read_bytes()
