"""The service behind the routes: it accepts requests, keeps a run's order, and carries them to the engine.

Accepted is what is in the journal. A request that arrives again gets the promise it had.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol

from motet.engine.core.channel import OnPart
from motet.engine.core.requests import DropRun, DropVersion, LoadVersion, Request
from motet.engine.types import BaseInfo, Claim
from motet.errors import BadRequest, Busy, EngineFault, NotFound
from motet.service.catalog.catalog import Catalog
from motet.service.catalog.changes import Remove, Set, StorageFault
from motet.service.feedback.records import Records
from motet.service.http.accepted import Accepted, Kind
from motet.service.http.auth import KeyRing
from motet.service.http.checkpoints import remove_folder, run_folder
from motet.service.http.completions import Completions
from motet.service.http.counters import Usage
from motet.service.http.desk import Desk
from motet.service.http.futures import JSON, Promise, Promises
from motet.service.http.holdings import Holdings
from motet.service.http.jobs.refusing import OVER_QUOTA
from motet.service.http.journal import Journal, session_row
from motet.service.http.links import Links, open_secret
from motet.service.http.naming import Names
from motet.service.http.openai.language import Language
from motet.service.http.quotas import OverQuota
from motet.service.http.registry import (
    DEFAULT_PROJECT,
    Checkpoint,
    PublishedVersion,
    Registry,
    Run,
    Sampler,
    Session,
    now,
)
from motet.service.http.settings import ServiceSettings
from motet.service.http.standing import stand_up
from motet.service.http.suspects import SUSPECT, Suspects
from motet.service.wire.training import read_claim

ACCOUNT_SECONDS = 10.0  # between two times that what was used is written down


class EngineDoor(Protocol):
    """The engine as the service sees it: the supervisor, or a client of one engine."""

    @property
    def info(self) -> BaseInfo: ...

    @property
    def generation(self) -> int:
        """Which engine this is; one more after each restart."""
        ...

    def submit(self, request: Request, on_part: OnPart | None = None) -> asyncio.Future[Any]:
        """Send a request at once: the engine gets them in the order of `submit`. Cancelling takes it back."""
        ...

    async def call(self, request: Request) -> Any:
        """Submit at once, then wait."""
        ...


class Service:
    """What every route needs."""

    def __init__(self, engine: EngineDoor, settings: ServiceSettings, catalog: Catalog, keys: KeyRing) -> None:
        self.engine = engine
        self.settings = settings
        self.keys = keys
        self.registry = Registry()
        self.holdings = Holdings(self.registry, settings.quotas, keys.quotas)
        self.journal = Journal(catalog)
        self.completions = Completions()
        self.usage = Usage()
        self.names = Names()
        self.naming = asyncio.Lock()  # one change of a name at a time
        self.language = Language(lambda: engine.info.folder)
        secret = open_secret(settings.data_dir)
        self.links = Links(secret)
        self.records = Records(catalog, settings.records, secret)
        self.promises = Promises(settings, self._forgotten, self._ended)
        self.desk = Desk(self, self.journal, self.promises, self._take_back)
        self.suspects = Suspects(self.desk)
        self._errands: set[asyncio.Task[None]] = set()
        self._to_forget: list[str] = []

    # -- accepting ---------------------------------------------------------------------------------------------

    def check_base_model(self, name: str | None) -> None:
        """BadRequest where somebody asks for another base model than the one that is here."""
        info = self.engine.info
        if name not in (info.name, info.folder):
            raise BadRequest(f"the base model {name!r} is not served here: ask for {info.name!r}")

    def claim(self, tenant: str, metadata: dict[str, Any]) -> Claim:
        """What a run with this user_metadata may have of device time. BadRequest: no such priority."""
        return read_claim(tenant, self.holdings.quotas(tenant).priority, metadata)

    async def open_session(
        self, tenant: str, metadata: dict[str, Any], display_name: str | None, project: str = DEFAULT_PROJECT
    ) -> Session:
        """A new session, written down."""
        session = self.registry.open_session(tenant, metadata, display_name, project)
        try:
            await self.journal.write(session_row(session))
        except StorageFault:
            del self.registry.sessions[session.id]
            raise
        return session

    async def create(self, session: Session, run_id: str, kind: Kind, message: Any, body: bytes) -> dict[str, Any]:
        """Accept the request that makes a run: its number 0. Sent again, it gives the same promise."""
        request_id = f"{run_id}:0"
        known = self.promises.find(session.tenant, request_id)
        if known is not None:
            await known.accepted.wait()
        elif run_id not in self.registry.runs:
            accepted = self._admit(request_id, kind, session, 0, message, len(body))
            await self._accept(accepted, body)
            self.desk.begin(accepted)
        return {"request_id": request_id, "model_id": run_id}

    async def train(self, run: Run, seq_id: int | None, kind: Kind, message: Any, body: bytes) -> dict[str, Any]:
        """Accept a request of a run; it starts when all before it have. Sent again, it gives the same promise."""
        number = run.order.number(seq_id)
        request_id = f"{run.id}:{number}"
        if not run.order.knows(number):
            accepted = self._admit(request_id, kind, run, number, message, len(body))
            run.touched = now()
            run.order.claim(number)
            try:
                await self._accept(accepted, body)
            except EngineFault:
                run.order.release(number)
                raise
            run.order.arrive(number, lambda: self.enter_line(run, accepted))
        elif (known := self.promises.find(run.tenant, request_id)) is not None:
            await known.accepted.wait()
        return {"request_id": request_id, "model_id": run.id}

    async def use_number(self, tenant: str, run_id: str, seq_id: int) -> None:
        """A request that was refused for its form has used its number: the client goes on with the next one."""
        run = self.registry.run(tenant, run_id)
        number = run.order.number(seq_id)
        if not run.order.knows(number):
            run.order.claim(number)
            try:
                await self.journal.refuse(tenant, run, number)
            except EngineFault:
                run.order.release(number)
                raise
            run.order.arrive(number, lambda: None)

    async def sample(self, sampler: Sampler, seq_id: int, kind: Kind, message: Any, body: bytes) -> Promise:
        """Accept a sampling request: no order between them. Sent again, it gives the same promise."""
        request_id = f"{sampler.id}:{seq_id}"
        known = self.promises.find(sampler.tenant, request_id)
        if known is not None:
            await known.accepted.wait()
            return known
        accepted = self._admit(request_id, kind, sampler, seq_id, message, len(body))
        await self._accept(accepted, body)
        self.desk.begin(accepted)
        return accepted.promise

    def _admit(
        self, request_id: str, kind: Kind, owner: Run | Sampler | Session, number: int, message: Any, size: int
    ) -> Accepted:
        """A promise and a place in the tenant's queue. Busy: come again. What never fits is told by its promise."""
        try:
            place = self.holdings.enter(owner.tenant, kind.tokens(message), size)
        except OverQuota as error:
            kind, message, place = OVER_QUOTA, str(error), self.holdings.resume(owner.tenant, 0)
        try:
            promise = self.promises.make(owner.tenant, request_id, size, cancellable=isinstance(owner, Sampler))
        except Busy:
            place.leave()
            raise
        promise.place = place
        if not isinstance(owner, Run) or owner.order.reaches(number):
            promise.begin()
        return Accepted(kind, owner, number, message, promise)

    async def _accept(self, accepted: Accepted, body: bytes) -> None:
        if accepted.kind is OVER_QUOTA:
            body = accepted.message.encode()
        try:
            await self.journal.accept(accepted, body)
        except EngineFault:
            self.promises.discard(accepted.promise)
            raise
        if (session := self.registry.sessions.get(accepted.id.partition(":")[0])) is not None:
            session.seen = now()
        self.desk.file(accepted)
        accepted.promise.accepted.set()

    def enter_line(self, run: Run, accepted: Accepted) -> None:
        """It is this request's turn: begin it, or leave it to be begun when its run stands."""
        while run.line and run.line[0].settled.is_set():
            run.line.popleft()
        accepted.promise.begin()
        accepted.before = run.line[-1] if run.line else None
        run.line.append(accepted)
        if run.generation == self.engine.generation and not run.suspected:
            self.desk.begin(accepted)
        elif run.resting:
            self.errand(stand_up(self, run))

    # -- the engine's memory -----------------------------------------------------------------------------------

    def engine_opened(self) -> None:
        """Another engine is there: every run stands up in it, and what was with the old one is begun anew."""
        for run in self.registry.runs.values():
            if not run.resting:
                self.errand(stand_up(self, run))
        self.errand(self._begin_unordered())

    async def _begin_unordered(self) -> None:
        free = [accepted for accepted in self.desk.open.values() if not isinstance(accepted.owner, Run)]
        await self.desk.interrupt(free)
        for accepted in free:
            if accepted.stage == "waiting" and accepted.deaths < SUSPECT:
                self.desk.begin(accepted)
        await self.suspects.begin(free)

    def _take_back(self, accepted: Accepted) -> None:
        """What could not be written has not happened: the run goes back to where it stood."""
        owner = accepted.owner
        if isinstance(owner, Run):
            owner.generation = 0
            self.errand(stand_up(self, owner))
        elif isinstance(owner, Session) and (run := self.registry.runs.get(accepted.id.rpartition(":")[0])):
            self.registry.forget_run(owner, run)
            self.let_go(DropRun(run.id))

    async def present(self, version: PublishedVersion) -> None:
        """Have the present engine know a version."""
        async with version.loading:
            generation = self.engine.generation
            if version.generation != generation:
                told = version.result
                folder = str(self.path(version.folder))
                await self.engine.call(LoadVersion(told.version, folder, told.number, version.run))
                version.generation = generation

    def path(self, relative: str) -> Path:
        """Where the catalog says something is."""
        return self.settings.data_dir / relative

    # -- letting go --------------------------------------------------------------------------------------------

    async def finish(self, session: Session, ending: str = "success") -> None:
        """The client has gone: its runs and nameless versions go; checkpoints stay."""
        if session.finished:
            return
        session.finished, session.ending = True, ending
        runs = [self.registry.runs[run_id] for run_id in session.runs]
        try:
            await self.journal.write(
                Set("sessions", {"id": session.id}, {"finished": True, "ending": ending}),
                Remove("samplers", {"session": session.id}),
                Remove("steps", {"run": session.runs}),
            )
        except StorageFault:
            session.finished = False  # said again, it counts
            raise
        for sampler in session.samplers:
            del self.registry.samplers[sampler]
        for run in runs:
            run.lost = NotFound(f"the session of {run.id!r} is finished")
            for accepted in [one for one in self.desk.open.values() if one.owner is run and one not in run.line]:
                self.desk.give_up(accepted, run.lost)  # it waited for one that will not come
            self.let_go(DropRun(run.id))
            for version in [version for version in run.versions if version.nameless]:
                await self.forget_version(version)
            await asyncio.to_thread(remove_folder, self.path(run_folder(run.id)))

    async def forget_version(self, version: PublishedVersion) -> None:
        """Take a version's name away; samples that are being drawn from it still end."""
        name = version.result.version
        if self.registry.versions.get(name) is not version:  # it went before, and another may have its name
            return
        del self.registry.versions[name]
        await self.journal.write(Remove("versions", {"name": name}))
        self.let_go(DropVersion(name))
        if version.nameless:
            await asyncio.to_thread(remove_folder, self.path(version.folder))

    def enter_checkpoint(self, saved: Checkpoint) -> None:
        """A checkpoint that has been written down: from now on it is what its name means."""
        before = self.registry.checkpoints.get(saved.path)
        self.registry.checkpoints[saved.path] = saved
        self.usage.keep(saved.run.tenant, saved.size - (0 if before is None else before.size))
        self.usage.note(saved.run.tenant, saved.run.session, "checkpoints", 1)

    async def forget_checkpoint(self, saved: Checkpoint) -> None:
        """Take a checkpoint's name away, and its files; samples that are being drawn from it still end."""
        if self.registry.checkpoints.get(saved.path) is not saved:  # it went before, and another may have its name
            return
        version = self.registry.versions.get(saved.path)
        del self.registry.checkpoints[saved.path]
        try:
            await self.journal.write(Remove("checkpoints", {"path": saved.path}))
        except StorageFault:
            self.registry.checkpoints.setdefault(saved.path, saved)
            raise
        self.usage.keep(saved.run.tenant, -saved.size)
        if version is not None:
            await self.forget_version(version)
        await asyncio.to_thread(remove_folder, saved.folder)

    def let_go(self, request: DropRun | DropVersion) -> None:
        """Have the engine forget something, in its own time."""
        self.errand(self._let_go(request))

    async def _let_go(self, request: DropRun | DropVersion) -> None:
        with contextlib.suppress(NotFound, EngineFault):  # it had gone before, or everything has
            await self.engine.call(request)

    async def keep_accounts(self) -> None:
        """Write down what was used, again and again, for as long as the server stands."""
        while True:
            await asyncio.sleep(ACCOUNT_SECONDS)
            with contextlib.suppress(StorageFault):  # the next time has it all
                await self.usage.save(self.journal.write)

    def warm_words(self) -> None:
        """Somebody will ask for words, since there is a name in service: have the tokenizer ready."""
        if self.names.any:
            self.errand(self._warm_words())

    async def _warm_words(self) -> None:
        await self.language.chat()

    def errand(self, work: Coroutine[Any, Any, None]) -> None:
        """Something that nobody waits for."""
        errand = asyncio.create_task(work)
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)

    def _ended(self, promise: Promise) -> None:
        assert promise.reply is not None
        self.completions.note(promise.id, len(promise.reply.body), failed=promise.reply.media == JSON)

    def _forgotten(self, request_id: str) -> None:
        self.completions.forget(request_id)
        if not self._to_forget:
            self.errand(self._write_forgotten())
        self._to_forget.append(request_id)

    async def _write_forgotten(self) -> None:
        await asyncio.sleep(0)  # results are let go in crowds
        ids, self._to_forget = self._to_forget, []
        by_owner: dict[str, list[str]] = defaultdict(list)
        for request_id in ids:
            by_owner[request_id.rpartition(":")[0]].append(request_id)
        for owner, own in by_owner.items():
            highest = max(int(one.rpartition(":")[2]) for one in own)
            await self.journal.forget(self.registry.runs.get(owner), own, highest)
