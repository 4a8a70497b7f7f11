"""Who owns what: sessions, runs, samplers, versions and checkpoints, by tenant. In memory; the journal writes it down.

A tenant asking for another's thing is told that there is no such thing.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from motet.engine.types import AdamW, AdapterShape, PublishResult
from motet.errors import MotetError, NotFound
from motet.service.http.accepted import Accepted
from motet.service.http.ordering import RunOrder

CheckpointKind = Literal["weights", "sampler_weights", "external_weights"]
DEFAULT_PROJECT = "default"


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(eq=False)
class Session:
    """One client's visit."""

    id: str
    tenant: str
    metadata: dict[str, Any]
    display_name: str | None
    created: datetime = field(default_factory=now)
    seen: datetime = field(default_factory=now)  # last heartbeat
    finished: bool = False  # the client has said goodbye
    ending: str = "success"  # how it went, once it is finished: success, errored or interrupted
    project: str = DEFAULT_PROJECT  # a label
    runs: list[str] = field(default_factory=list)
    samplers: list[str] = field(default_factory=list)
    claims: dict[str, str] = field(default_factory=dict)  # samplers on their way, and the request of each


@dataclass(eq=False)
class PublishedVersion:
    """A version, and the PEFT folder (relative to the data folder) that any engine can load it from."""

    run: str
    result: PublishResult
    nameless: bool  # it belongs to one sampling session, and goes with it
    folder: str
    generation: int  # of the engine that has it, or had it last
    time: datetime = field(default_factory=now)
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True)
class TakenStep:
    """A step of the optimizer, and the file (relative to the data folder) of its gradient."""

    number: int  # of its request
    adam: AdamW
    gradient: str


@dataclass(eq=False)
class Run:
    """A trainable adapter as its owner knows it, and where its training state can be had from.

    Its state is its snapshot, or a fresh adapter of its seed; then the steps after it; then the accumulating requests.
    """

    id: str
    session: str
    tenant: str
    metadata: dict[str, Any]
    base: str  # hash of the base model that it was made on
    shape: AdapterShape | None = None  # None until a checkpoint has told it
    seed: int | None = None
    snapshot: str | None = None  # a folder, relative to the data folder
    snapshot_number: int = 0  # of the request after which it was taken
    steps: list[TakenStep] = field(default_factory=list)  # since the snapshot
    accumulating: list[str] = field(default_factory=list)  # requests whose gradients await the next step
    forgotten: int = 0  # results up to this number may have been let go
    generation: int = 0  # of the engine that has it; 0: none has
    resting: bool = False  # its client is away: it is out of the engine until it is asked for
    lost: MotetError | None = None  # why it cannot go on
    gradient_lost: bool = False  # what was accumulating cannot be computed again
    since_snapshot: int = 0  # steps begun since a snapshot was
    created: datetime = field(default_factory=now)
    touched: datetime = field(default_factory=now)
    order: RunOrder = field(default_factory=RunOrder)
    line: deque[Accepted] = field(default_factory=deque)  # begun or waiting for their turn, in order
    standing_up: asyncio.Lock = field(default_factory=asyncio.Lock)
    suspected: bool = False  # what it had in hand is begun one by one, and whatever comes meanwhile after that
    versions: deque[PublishedVersion] = field(default_factory=lambda: deque(maxlen=1000))  # newest last
    saving: set[str] = field(default_factory=set)  # paths of checkpoints on their way
    inflight_version: str | None = None  # what its inflight samplers follow

    def check(self) -> None:
        """Raises what keeps the run from going on."""
        if self.lost is not None:
            raise self.lost

    @property
    def newest_number(self) -> int:
        """Of its versions; 0 where it has none."""
        return max((version.result.number for version in self.versions), default=0)

    @property
    def name(self) -> str:
        """What a person calls it: `motet.name` of its user_metadata, else its id."""
        return str(self.metadata.get("motet.name", self.id))


@dataclass(eq=False)
class Sampler:
    """A sampling session: a version, the newest of a run (inflight), or the base model."""

    id: str
    tenant: str
    version: str | None = None
    follows: Run | None = None
    model_path: str | None = None

    @property
    def current_version(self) -> str | None:
        return self.version if self.follows is None else self.follows.inflight_version


@dataclass(eq=False)
class Checkpoint:
    """Saved weights under a name: `tinker://RUN/KIND/NAME`."""

    run: Run
    kind: CheckpointKind
    name: str
    folder: Path
    metadata: dict[str, Any]
    size: int = 0  # bytes on disk
    public: bool = False  # other tenants may read it
    time: datetime = field(default_factory=now)
    expires: datetime | None = None

    @property
    def path(self) -> str:
        return tinker_path(self.run.id, self.kind, self.name)

    @property
    def id(self) -> str:
        """As listings and routes name it, with its kind."""
        return f"{self.kind}/{self.name}"

    @property
    def expired(self) -> bool:
        return self.expires is not None and self.expires <= now()


def tinker_path(run: str, kind: CheckpointKind, name: str) -> str:
    return f"tinker://{run}/{kind}/{name}"


class Registry:
    """Everything that has an id. Each `find` raises NotFound for what is not the tenant's own."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.runs: dict[str, Run] = {}
        self.samplers: dict[str, Sampler] = {}
        self.checkpoints: dict[str, Checkpoint] = {}  # by path
        self.versions: dict[str, PublishedVersion] = {}  # by name

    def open_session(
        self, tenant: str, metadata: dict[str, Any], display_name: str | None, project: str = DEFAULT_PROJECT
    ) -> Session:
        session = Session(secrets.token_hex(16), tenant, metadata, display_name, project=project)
        self.sessions[session.id] = session
        return session

    def session(self, tenant: str, session_id: str) -> Session:
        session = self.sessions.get(session_id)
        if session is None or session.tenant != tenant:
            raise NotFound(f"there is no session {session_id!r}: create one first")
        return session

    def live_session(self, tenant: str, session_id: str) -> Session:
        """One that may still begin something."""
        session = self.session(tenant, session_id)
        if session.finished:
            raise NotFound(f"the session {session_id!r} is finished: begin another")
        return session

    def run(self, tenant: str, run_id: str) -> Run:
        run = self.runs.get(run_id)
        if run is None or run.tenant != tenant:
            raise NotFound(f"there is no training run {run_id!r}")
        return run

    def sampler(self, tenant: str, sampler_id: str) -> Sampler:
        sampler = self.samplers.get(sampler_id)
        if sampler is None or sampler.tenant != tenant:
            raise NotFound(f"there is no sampler {sampler_id!r}: create a sampling session first")
        return sampler

    def checkpoint(self, tenant: str, path: str) -> Checkpoint:
        checkpoint = self.checkpoints.get(path)
        if checkpoint is None or checkpoint.run.tenant != tenant or checkpoint.expired:
            raise NotFound(f"there is no checkpoint {path!r}")
        return checkpoint

    def readable(self, tenant: str, path: str) -> Checkpoint:
        """A checkpoint that a tenant may read: its own, or a public one."""
        checkpoint = self.checkpoints.get(path)
        if checkpoint is not None and checkpoint.public and not checkpoint.expired:
            return checkpoint
        return self.checkpoint(tenant, path)

    def add_version(self, version: PublishedVersion) -> None:
        """Keep a version under its name; its run may be gone."""
        self.versions[version.result.version] = version
        if version.run in self.runs:
            self.runs[version.run].versions.append(version)

    def add_run(self, session: Session, run: Run) -> None:
        self.runs[run.id] = run
        session.runs.append(run.id)

    def forget_run(self, session: Session, run: Run) -> None:
        """A run that never came to be."""
        del self.runs[run.id]
        session.runs.remove(run.id)

    def add_sampler(self, session: Session, sampler: Sampler) -> None:
        self.samplers[sampler.id] = sampler
        session.samplers.append(sampler.id)

    def forget_sampler(self, session: Session, sampler: Sampler) -> None:
        """A sampler that never came to be."""
        del self.samplers[sampler.id]
        session.samplers.remove(sampler.id)

    def runs_of(self, tenant: str) -> list[Run]:
        """Newest first."""
        return sorted((run for run in self.runs.values() if run.tenant == tenant), key=_created, reverse=True)

    def checkpoints_of(self, tenant: str, run: Run | None = None) -> list[Checkpoint]:
        """A tenant's checkpoints (of one run), newest first."""
        own: Iterable[Checkpoint] = (
            checkpoint
            for checkpoint in self.checkpoints.values()
            if checkpoint.run.tenant == tenant and (run is None or checkpoint.run is run) and not checkpoint.expired
        )
        return sorted(own, key=lambda checkpoint: checkpoint.time, reverse=True)


def _created(run: Run) -> datetime:
    return run.created
