"""What the catalog could not take has not happened: said again once it can, it counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from motet.engine.core.channel import OnPart
from motet.engine.core.requests import DropRun, DropVersion, Request
from motet.engine.types import BaseInfo, PublishResult
from motet.service.catalog.catalog import Catalog
from motet.service.catalog.changes import Change, StorageFault
from motet.service.http.auth import KeyRing
from motet.service.http.registry import Checkpoint, PublishedVersion, Run, Session
from motet.service.http.routes.sampling import create_sampling_session
from motet.service.http.service import Service
from motet.service.http.settings import ServiceSettings
from motet.service.wire.schemas import CreateSamplingSession

INFO = BaseInfo("tiny", "/tiny", 320, 128, "float32", 1, (2,), 8, "hash", "print")


class Listener:
    """An engine that does what it is told, and tells what that was."""

    info, generation = INFO, 1

    def __init__(self) -> None:
        self.heard: list[Request] = []

    def submit(self, request: Request, on_part: OnPart | None = None) -> asyncio.Future[Any]:
        self.heard.append(request)
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def call(self, request: Request) -> Any:
        return await self.submit(request)


class Disk:
    """A catalog in front of which one stands, and lets nothing through."""

    def __init__(self, catalog: Catalog, patch: pytest.MonkeyPatch) -> None:
        self.full = False
        self._write = catalog.write
        patch.setattr(catalog, "write", self.write)

    async def write(self, change: Change) -> None:
        if self.full:
            raise StorageFault("the disk is full")
        await self._write(change)


Test = Callable[[Service, Disk, Listener], Coroutine[Any, Any, None]]


def with_service(folder: Path, test: Test) -> None:
    async def run() -> None:
        catalog, engine = Catalog(folder), Listener()
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(catalog, patch)
            await test(Service(engine, ServiceSettings(data_dir=folder), catalog, KeyRing([])), disk, engine)
            await asyncio.sleep(0.01)  # errands
        catalog.close()

    asyncio.run(run())


async def open_session(service: Service) -> tuple[Session, Run]:
    session = await service.open_session("ann", {}, None)
    run = Run(f"{session.id}:train:0", session.id, "ann", {}, "hash", generation=1)
    service.registry.add_run(session, run)
    return session, run


def test_a_goodbye(tmp_path: Path) -> None:
    async def test(service: Service, disk: Disk, engine: Listener) -> None:
        session, run = await open_session(service)
        disk.full = True
        with pytest.raises(StorageFault):
            await service.finish(session)
        assert not session.finished and run.lost is None
        disk.full = False
        await service.finish(session, "errored")
        await asyncio.sleep(0)
        assert session.finished and run.lost is not None and engine.heard == [DropRun(run.id)]
        (row,) = service.journal.catalog.rows("sessions")
        assert (row["finished"], row["ending"]) == (True, "errored")

    with_service(tmp_path, test)


def test_a_session_and_a_sampler(tmp_path: Path) -> None:
    async def test(service: Service, disk: Disk, engine: Listener) -> None:
        session, _ = await open_session(service)
        body = CreateSamplingSession(session_id=session.id, sampling_session_seq_id=0, base_model="tiny")
        disk.full = True
        with pytest.raises(StorageFault):
            await service.open_session("ann", {}, None)
        with pytest.raises(StorageFault):
            await create_sampling_session(body, service, "ann")
        assert list(service.registry.sessions) == [session.id] and not service.registry.samplers
        disk.full = False
        made = await create_sampling_session(body, service, "ann")
        assert [row["id"] for row in service.journal.catalog.rows("samplers")] == [made["sampling_session_id"]]

    with_service(tmp_path, test)


def test_a_checkpoint_that_is_deleted(tmp_path: Path) -> None:
    async def test(service: Service, disk: Disk, engine: Listener) -> None:
        _, run = await open_session(service)
        saved = save(service, run, tmp_path / "first")
        disk.full = True
        with pytest.raises(StorageFault):
            await service.forget_checkpoint(saved)
        assert service.registry.checkpoint("ann", saved.path) is saved and saved.folder.exists()
        disk.full = False
        await service.forget_checkpoint(saved)
        await asyncio.sleep(0)
        assert not service.registry.checkpoints and not saved.folder.exists()
        assert engine.heard == [DropVersion(saved.path)]

    with_service(tmp_path, test)


def test_what_was_saved_again_under_its_name_stays(tmp_path: Path) -> None:
    """Expired checkpoints are tidied up one by one; meanwhile their names can be taken."""

    async def test(service: Service, disk: Disk, engine: Listener) -> None:
        _, run = await open_session(service)
        before = save(service, run, tmp_path / "first")
        after = save(service, run, tmp_path / "second")
        await service.forget_checkpoint(before)
        assert service.registry.checkpoint("ann", after.path) is after and after.folder.exists()
        assert after.path in service.registry.versions

    with_service(tmp_path, test)


def save(service: Service, run: Run, folder: Path) -> Checkpoint:
    """A checkpoint `a` for sampling, as it is once it was written."""
    folder.mkdir()
    saved = Checkpoint(run, "sampler_weights", "a", folder, {})
    service.enter_checkpoint(saved)
    result = PublishResult(saved.path, 1, "hash", 0.0)
    service.registry.add_version(PublishedVersion(run.id, result, False, str(folder), generation=1))
    return saved
