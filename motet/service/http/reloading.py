"""What an earlier server left in the catalog, made into sessions, runs, promises and requests again."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from motet.engine.types import AdapterShape, PublishResult
from motet.errors import NotFound
from motet.service.http.accepted import Accepted
from motet.service.http.futures import Reply, failure
from motet.service.http.jobs.kinds import KINDS
from motet.service.http.journal import body_file, read_step, reply_file
from motet.service.http.registry import Checkpoint, PublishedVersion, Run, Sampler, Session
from motet.service.http.service import Service

Row = dict[str, Any]


def reload(service: Service) -> None:
    """Fill an empty service from its catalog. Runs stand up and requests begin when the engine is told to be open."""
    rows = service.journal.catalog.rows
    for row in rows("sessions"):
        session = _session(row)
        service.registry.sessions[session.id] = session
    for row in sorted(rows("runs"), key=_created):
        run = _run(row)
        session = service.registry.sessions[run.session]
        service.registry.add_run(session, run)
        if session.finished:
            run.lost = NotFound(f"the session of {run.id!r} is finished")
    for row in sorted(rows("steps"), key=lambda row: int(row["number"])):
        service.registry.runs[row["run"]].steps.append(read_step(row))
    for row in sorted(rows("versions"), key=lambda row: row["time"]):
        service.registry.add_version(_version(row))
    for row in rows("samplers"):
        _add_sampler(service, row)
    for row in rows("checkpoints"):
        saved = _checkpoint(service, row)
        service.registry.checkpoints[saved.path] = saved
        service.usage.keep(saved.run.tenant, saved.size)
    service.usage.load(rows("usage"))
    service.names.load(rows("names"), rows("name_versions"))
    _reload_requests(service, sorted(rows("requests"), key=lambda row: (row["owner"], row["number"])))
    _sweep(service)


def _created(row: Row) -> datetime:
    created: datetime = row["created"]
    return created


def _session(row: Row) -> Session:
    return Session(
        row["id"],
        row["tenant"],
        row["about"],
        row["display_name"],
        created=row["created"].replace(tzinfo=UTC),
        finished=row["finished"],
        ending=row["ending"],
        project=row["project"],
    )


def _run(row: Row) -> Run:
    return Run(
        row["id"],
        row["session"],
        row["tenant"],
        row["about"],
        row["base"],
        AdapterShape(**row["shape"]),
        row["seed"],
        row["snapshot"],
        row["snapshot_number"],
        forgotten=row["forgotten"],
        created=row["created"].replace(tzinfo=UTC),
    )


def _version(row: Row) -> PublishedVersion:
    result = PublishResult(row["name"], row["number"], row["content_hash"], row["seconds"])
    time = row["time"].replace(tzinfo=UTC)
    return PublishedVersion(row["run"], result, row["nameless"], row["folder"], generation=0, time=time)


def _add_sampler(service: Service, row: Row) -> None:
    sampler = Sampler(row["id"], row["tenant"], row["version"], model_path=row["model_path"])
    if row["follows"] is not None:
        run = sampler.follows = service.registry.runs[row["follows"]]
        own, newest = (service.registry.versions.get(name or "") for name in (row["version"], run.inflight_version))
        if own is not None and (newest is None or newest.result.number < own.result.number):
            run.inflight_version = row["version"]
    service.registry.add_sampler(service.registry.sessions[row["session"]], sampler)


def _checkpoint(service: Service, row: Row) -> Checkpoint:
    return Checkpoint(
        service.registry.runs[row["run"]],
        row["kind"],
        row["name"],
        service.path(row["folder"]),
        row["about"],
        row["size"],
        row["public"],
        row["time"].replace(tzinfo=UTC),
        None if row["expires"] is None else row["expires"].replace(tzinfo=UTC),
    )


# -- requests --------------------------------------------------------------------------------------------------


def _reload_requests(service: Service, rows: list[Row]) -> None:
    """Results can be read again; what has none is on its way again, a run's in the order of their numbers."""
    highest = {run.id: run.forgotten for run in service.registry.runs.values()}
    for row in rows:
        if row["media"] is not None and row["owner"] in highest:
            highest[row["owner"]] = max(highest[row["owner"]], row["number"])
    for run_id, number in highest.items():
        service.registry.runs[run_id].order.resume(number + 1)
    for row in rows:
        if row["media"] is None:
            _reopen(service, row)
        else:
            _keep_result(service, row)


def _keep_result(service: Service, row: Row) -> None:
    if row["accumulates"] is not None and (run := service.registry.runs.get(row["owner"])) is not None:
        run.accumulating.append(row["id"])
    body = service.journal.reply(row)
    if body is not None:
        service.promises.keep(row["tenant"], row["id"], Reply(body, row["media"]))


def _reopen(service: Service, row: Row) -> None:
    registry, kind, name = service.registry, KINDS[row["kind"]], row["owner"]
    owner = registry.runs.get(name) or registry.samplers.get(name) or registry.sessions.get(name)
    if owner is None:  # a sampler, which went with its session
        error = NotFound(f"the session of {name!r} is finished")
        service.promises.keep(row["tenant"], row["id"], failure(error))
        return
    body = service.journal.body(row)
    promise = service.promises.open(row["tenant"], row["id"], len(body), cancellable=isinstance(owner, Sampler))
    accepted = Accepted(kind, owner, row["number"], kind.read(body), promise)
    promise.place = service.holdings.resume(row["tenant"], kind.tokens(accepted.message))
    promise.accepted.set()
    service.desk.file(accepted)
    if isinstance(owner, Run):
        owner.order.arrive(row["number"], lambda: service.enter_line(owner, accepted))
    else:
        promise.begin()


# -- files -----------------------------------------------------------------------------------------------------


def _sweep(service: Service) -> None:
    """Remove files and folders that no row names: what was being written when the earlier server stopped."""
    rows = service.journal.catalog.rows("requests", without=("body", "reply"))
    service.journal.catalog.files.keep_only(
        {name for row in rows for name in (body_file(row["id"]), reply_file(row["id"]))}
    )
    registry = service.registry
    named = {saved.folder for saved in registry.checkpoints.values()}
    named |= {service.path(version.folder) for version in registry.versions.values()}
    for run in registry.runs.values():
        named |= {service.path(step.gradient) for step in run.steps}
        named |= {service.path(run.snapshot)} if run.snapshot is not None else set()
    for room in ("checkpoints", "runs"):
        for place in service.path(room).glob("*/*/*"):
            if place not in named:
                _remove(place)


def _remove(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()
