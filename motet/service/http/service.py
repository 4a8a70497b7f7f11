"""The service behind the routes: it accepts requests, keeps a run's order, and carries them to the engine.

A job is a coroutine that submits to the engine before its first await: jobs begin in the order they are started in, so
what they submit keeps that order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from motet.engine.core.requests import DropRun, DropVersion, Request
from motet.engine.types import BaseInfo
from motet.errors import BadRequest, EngineFault, NotFound
from motet.service.http.auth import KeyRing
from motet.service.http.checkpoints import remove_folder
from motet.service.http.futures import Promise, Promises, Reply
from motet.service.http.registry import Checkpoint, Registry, Run, Sampler, Session, now
from motet.service.http.settings import ServiceSettings

Job = Callable[[], Awaitable[Reply]]


class EngineDoor(Protocol):
    """The engine as the service sees it: the supervisor, or a client of one engine."""

    @property
    def info(self) -> BaseInfo: ...

    @property
    def generation(self) -> int:
        """Which engine this is; one more after each restart."""
        ...

    async def call(self, request: Request) -> Any:
        """Submit at once, then wait. Cancelling the waiting task takes the request back."""
        ...


class Service:
    """What every route needs."""

    def __init__(self, engine: EngineDoor, settings: ServiceSettings) -> None:
        self.engine = engine
        self.settings = settings
        self.keys = KeyRing(settings.api_keys)
        self.registry = Registry()
        self.promises = Promises(settings)
        self._errands: set[asyncio.Task[None]] = set()

    def check_base_model(self, name: str | None) -> None:
        """BadRequest where somebody asks for another base model than the one that is here."""
        info = self.engine.info
        if name not in (info.name, info.folder):
            raise BadRequest(f"the base model {name!r} is not served here: ask for {info.name!r}")

    def create(self, tenant: str, run_id: str, job: Job) -> dict[str, Any]:
        """Accept the request that makes a run: its number 0. Sent again, it gives the same promise."""
        request_id = f"{run_id}:0"
        if run_id not in self.registry.runs and self.promises.find(tenant, request_id) is None:
            self.promises.start(self.promises.make(tenant, request_id, size=0), _work(job))
        return {"request_id": request_id, "model_id": run_id}

    def train(self, run: Run, seq_id: int | None, job: Job, size: int = 0) -> dict[str, Any]:
        """Accept a request of a run; it starts when all before it have. Sent again, it gives the same promise."""
        number = run.order.number(seq_id)
        request_id = f"{run.id}:{number}"
        if not run.order.knows(number):
            promise = self.promises.make(run.tenant, request_id, size)
            run.touched = now()
            run.order.arrive(number, lambda: self.promises.start(promise, self._on_run(run, job)))
        return {"request_id": request_id, "model_id": run.id}

    def use_number(self, tenant: str, run_id: str, seq_id: int) -> None:
        """A request that was refused for its form has used its number: the client goes on with the next one."""
        run = self.registry.run(tenant, run_id)
        number = run.order.number(seq_id)
        if not run.order.knows(number):
            run.order.arrive(number, lambda: None)

    def sample(self, sampler: Sampler, seq_id: int, job: Job, size: int) -> Promise:
        """Accept a sampling request: no order between them. Sent again, it gives the same promise."""
        request_id = f"{sampler.id}:{seq_id}"
        promise = self.promises.find(sampler.tenant, request_id)
        if promise is None:
            promise = self.promises.make(sampler.tenant, request_id, size, cancellable=True)
            self.promises.start(promise, self._on_sampler(sampler, job))
        return promise

    def finish(self, session: Session) -> None:
        """The client has gone: its runs and nameless versions leave the engine; checkpoints stay."""
        if session.finished:
            return
        session.finished = True
        for sampler in session.samplers:
            del self.registry.samplers[sampler]
        for run in (self.registry.runs[run_id] for run_id in session.runs):
            self.let_go(DropRun(run.id))
            for version in [version for version in run.versions if version.nameless]:
                self.let_go(DropVersion(version.result.version))

    async def forget_checkpoint(self, saved: Checkpoint) -> None:
        """Take a checkpoint's name away, and its files; samples that are being drawn from it still end."""
        del self.registry.checkpoints[saved.path]
        if saved.kind == "sampler_weights":
            self.let_go(DropVersion(saved.path))
        await asyncio.to_thread(remove_folder, saved.folder)

    def let_go(self, request: DropRun | DropVersion) -> None:
        """Have the engine forget something, in its own time."""
        errand = asyncio.create_task(self._let_go(request))
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)

    async def _let_go(self, request: DropRun | DropVersion) -> None:
        with contextlib.suppress(NotFound, EngineFault):  # it had gone before, or everything has
            await self.engine.call(request)

    async def _on_run(self, run: Run, job: Job) -> Reply:
        if run.generation != self.engine.generation:
            raise EngineFault("the engine was started again and this run is lost: make one from a checkpoint")
        return await job()

    async def _on_sampler(self, sampler: Sampler, job: Job) -> Reply:
        if sampler.current_version is not None and sampler.generation != self.engine.generation:
            raise EngineFault("the engine was started again and this sampler's version is lost: publish it again")
        return await job()


async def _work(job: Job) -> Reply:
    return await job()
