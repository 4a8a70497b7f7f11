"""How much of its quotas each tenant has taken.

What is full by the tenant's own doing is told as its mistake, through the promise. What empties by itself, the queue,
is back-pressure: the client is told to come again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from motet.errors import Busy
from motet.service.http.lines import Line, Place
from motet.service.http.quotas import REMEDY, Holding, OverQuota, Quotas
from motet.service.http.registry import Registry, Run

BODY_BYTES_A_TOKEN = 64  # a request counts as a token for so many bytes at least, whatever it says


class Holdings:
    """Every tenant's quotas against what it has. `own` gives what is not a default for a tenant."""

    def __init__(self, registry: Registry, defaults: Quotas, own: Callable[[str], Mapping[str, Any]]) -> None:
        self._registry = registry
        self._defaults = defaults
        self._own = own
        self._lines: dict[str, Line] = {}

    def quotas(self, tenant: str) -> Quotas:
        """Those that count for a tenant now."""
        own = self._own(tenant)
        return replace(self._defaults, **own) if own else self._defaults

    @property
    def in_hand(self) -> int:
        """Everybody's requests that will end without anything more from their clients."""
        return sum(line.begun for line in self._lines.values())

    def check_run(self, tenant: str, generation: int) -> None:
        """OverQuota where one more run, in the engine of this generation, is too many."""
        self.check_adapter(tenant, generation)
        self._check(tenant, "runs", _live_runs(self._registry, tenant) + 1)

    def check_adapter(self, tenant: str, generation: int) -> None:
        """OverQuota where one more run or version in the engine of this generation is too many."""
        self._check(tenant, "resident_adapters", _resident_adapters(self._registry, tenant, generation) + 1)

    def check_storage(self, tenant: str, more: int = 1) -> None:
        """OverQuota where so many more bytes are too many."""
        self._check(tenant, "stored_bytes", _stored_bytes(self._registry, tenant) + more)

    def enter(self, tenant: str, tokens: int, size: int) -> Place:
        """A place in the line for a request of `size` bytes.

        Busy: come again. OverQuota: nothing that is in the line will end by itself, so that coming again is no use. Who
        is told so keeps a place, for no tokens; hence a bound on those too.
        """
        tokens = max(tokens, size // BODY_BYTES_A_TOKEN)
        line, quotas = self._line(tenant), self.quotas(tenant)
        full = line.requests + 1 > quotas.queued_requests or line.tokens + tokens > quotas.queued_tokens
        if full and (line.begun or line.requests >= 2 * quotas.queued_requests):
            raise Busy(
                f"{line.requests} requests of {line.tokens} tokens are on their way: send this again in a moment"
            )
        if full:
            raise OverQuota(
                f"{tokens} tokens beside {line.tokens} in {line.requests} requests that wait for others are more "
                f"than your queue takes ({quotas.queued_tokens} tokens, {quotas.queued_requests} requests): send less"
            )
        return self.resume(tenant, tokens)

    def resume(self, tenant: str, tokens: int) -> Place:
        """A place without a look at the quota: of a request that was accepted before."""
        line = self._line(tenant)
        line.tokens += tokens
        line.requests += 1
        return Place(line, tokens)

    def _line(self, tenant: str) -> Line:
        return self._lines.setdefault(tenant, Line())

    def _check(self, tenant: str, name: Holding, needed: int) -> None:
        quota = getattr(self.quotas(tenant), name)
        if needed > quota:
            what = name.replace("_", " ")
            raise OverQuota(f"your quota of {quota} {what} is used up: {REMEDY[name]}, or ask whoever runs this server")


# -- counted over the registry where it is asked for -----------------------------------------------------------


def _live_runs(registry: Registry, tenant: str) -> int:
    """Runs of sessions that are not finished."""
    return sum(run.tenant == tenant and _lives(registry, run) for run in registry.runs.values())


def _resident_adapters(registry: Registry, tenant: str, generation: int) -> int:
    """Runs and versions that this generation of the engine has in hand."""
    owners = registry.runs
    runs = sum(
        run.tenant == tenant and run.generation == generation and _lives(registry, run) for run in owners.values()
    )
    versions = sum(
        version.generation == generation and version.run in owners and owners[version.run].tenant == tenant
        for version in registry.versions.values()
    )
    return runs + versions


def _stored_bytes(registry: Registry, tenant: str) -> int:
    """All checkpoints, those too that have expired and are still there."""
    return sum(saved.size for saved in registry.checkpoints.values() if saved.run.tenant == tenant)


def _lives(registry: Registry, run: Run) -> bool:
    session = registry.sessions.get(run.session)
    return session is not None and not session.finished
