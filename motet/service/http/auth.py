"""Who is asking: from the X-API-Key header to a tenant.

A tenant's name is derived from its key, so that neither listings nor logs ever hold a key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from motet.errors import UserError

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Unauthorized(UserError):
    """No key, or one that this server does not know."""


class KeyRing:
    """The keys that may enter. Without any the server is open: every key is a tenant of its own."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._tenants = frozenset(tenant_of(key) for key in keys)

    @property
    def open(self) -> bool:
        return not self._tenants

    def tenant(self, key: str | None) -> str:
        """The tenant of a key. Unauthorized where there is none; only digests are ever compared."""
        if not key:
            raise Unauthorized("send your API key in the X-API-Key header (the SDK reads TINKER_API_KEY)")
        tenant = tenant_of(key)
        if not self.open and tenant not in self._tenants:
            raise Unauthorized("this server does not know that API key; ask whoever runs it for one")
        return tenant


def tenant_of(key: str) -> str:
    """A tenant's name: a digest of its key."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]
