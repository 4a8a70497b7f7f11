"""A request between its acceptance and its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from motet.service.catalog.changes import Statement
from motet.service.http.futures import Promise, Reply

if TYPE_CHECKING:
    from motet.service.http.registry import Run, Sampler, Session


# Waiting for its turn, at work, its outcome waiting for those before it, its outcome being written: then it is too late
# to begin anew.
Stage = Literal["waiting", "working", "settling", "recording"]


def nothing() -> None:
    """What happens after most outcomes."""


def no_tokens(message: Any) -> int:
    """What most requests bring."""
    return 0


@dataclass(frozen=True)
class Outcome:
    """What a request's work gives: the reply, what is written together with it, and what holds once that is safe."""

    reply: Reply
    statements: tuple[Statement, ...] = ()
    gone: tuple[str, ...] = ()  # files of the catalog that are not needed any more
    accumulates: str | None = None  # fingerprint: its gradient was added to the run's, so its body is kept
    then: Callable[[], None] = nothing


@dataclass(frozen=True)
class Kind:
    """A kind of request: how its body is read, and what its work is.

    Work submits to the engine before its first await: works begin in the order they are started in, so what they submit
    keeps that order. It may be begun anew, on a run that stands where it stood before, until its outcome is written.
    """

    name: str
    read: Callable[[bytes], Any]
    work: Callable[[Any, Accepted], Coroutine[Any, Any, Outcome]]
    tokens: Callable[[Any], int] = no_tokens  # that a message brings into its tenant's queue


@dataclass(eq=False)
class Accepted:
    """One request on its way. Fields without a default are the acceptor's, the others the desk's."""

    kind: Kind
    owner: Run | Sampler | Session
    number: int
    message: Any  # what `kind.read` gave
    promise: Promise
    before: Accepted | None = None  # the one of its run that must be settled first
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    stage: Stage = "waiting"
    task: asyncio.Task[Any] | None = None  # working, then settling
    deaths: int = 0  # of engines that had it in hand
    alone: bool = False  # begun with no other suspect beside it

    async def turn(self) -> None:
        """Return once all before it in its run are settled: what they did is in the registry then."""
        if self.before is not None:
            await self.before.settled.wait()

    @property
    def id(self) -> str:
        return self.promise.id
