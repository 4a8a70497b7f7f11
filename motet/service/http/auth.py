"""Who is asking: from the X-API-Key header to a tenant.

Keys are those of the command line, each a tenant of its own, and those that `motet keys` made. The latter come and go
while the server runs. Only digests are held and compared.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from motet.errors import UserError
from motet.service.catalog.keys import KeyStore, QuotaValues, digest_of

LOOPBACK = ("127.0.0.1", "::1", "localhost")
INDEX = 16  # characters of a digest by which it is looked up, before the whole of it is compared


class Unauthorized(UserError):
    """No key, or one that this server does not know."""


@dataclass(frozen=True)
class Known:
    """A key that may enter, and whose it is."""

    digest: str
    tenant: str


NOBODY = Known("0" * 64, "")  # compared where nothing was found, so that an unknown key takes as long


class KeyRing:
    """The keys that may enter. Where none was ever made the server is open: every key is a tenant of its own."""

    def __init__(self, keys: Iterable[str], store: KeyStore | None = None) -> None:
        self._given = [Known(digest_of(key), tenant_of(key)) for key in keys]
        self._store = store
        self._seen = -1 if store is not None else 0  # the store's changes that are known here
        self._known = _by_index(self._given)
        self._quotas: dict[str, QuotaValues] = {}
        self._open = not self._given

    @property
    def open(self) -> bool:
        """Is every key let in? Never again once a key was made, were it revoked since."""
        self._look()
        return self._open

    def tenant(self, key: str | None) -> str:
        """The tenant of a key. Unauthorized where there is none; in constant time, whatever the key."""
        if not key:
            raise Unauthorized("send your API key in the X-API-Key header (the SDK reads TINKER_API_KEY)")
        if self.open:
            return tenant_of(key)
        digest = digest_of(key)
        known = self._known.get(digest[:INDEX], NOBODY)
        if not hmac.compare_digest(known.digest, digest):
            raise Unauthorized("this server does not know that API key; ask whoever runs it for one")
        return known.tenant

    def quotas(self, tenant: str) -> QuotaValues:
        """Those that are not the server's defaults."""
        self._look()
        return self._quotas.get(tenant, {})

    def _look(self) -> None:
        """Read the store again where it has changed. Its keys are few; StorageFault leaves the ring as it was."""
        if self._store is None or (changes := self._store.changes()) == self._seen:
            return
        stored, quotas = self._store.all(), self._store.quotas()
        living = [Known(key.digest, key.tenant) for key in stored if key.revoked is None]
        self._known = _by_index([*self._given, *living])
        self._quotas = quotas
        self._open = not self._given and not stored
        self._seen = changes


def _by_index(keys: Iterable[Known]) -> dict[str, Known]:
    return {key.digest[:INDEX]: key for key in keys}


def tenant_of(key: str) -> str:
    """The name of a tenant that is known by its key alone."""
    return digest_of(key)[:32]
