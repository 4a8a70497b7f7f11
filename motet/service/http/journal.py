"""What is written when: each event of the service as rows of the catalog.

A request's row stands before its id is returned; its reply, and whatever it did, before its promise resolves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from motet.engine.types import AdamW
from motet.service.catalog.catalog import Catalog
from motet.service.catalog.changes import Add, Change, Remove, Set, Statement, StorageFault
from motet.service.catalog.files import INLINE_BYTES
from motet.service.http.accepted import Accepted, Outcome
from motet.service.http.futures import JSON
from motet.service.http.registry import Checkpoint, PublishedVersion, Run, Sampler, Session, TakenStep, now


def plain(time: datetime) -> datetime:
    """As the catalog holds times: UTC without a zone."""
    return time.replace(tzinfo=None)


class Journal:
    """Writes to the catalog, and reads bodies back."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._debts: list[Statement] = []  # failures that could not be written when they happened

    async def write(self, *statements: Statement, gone: Sequence[str] = ()) -> None:
        """StorageFault: nothing of it was written."""
        await self.catalog.write(Change(statements, gone=gone))

    async def accept(self, accepted: Accepted, body: bytes) -> None:
        """The request's row, with its body."""
        values = {
            "id": accepted.id,
            "tenant": accepted.promise.tenant,
            "owner": accepted.owner.id,
            "number": accepted.number,
            "kind": accepted.kind.name,
            "accepted": plain(now()),
        }
        inline, files = _placed(body_file(accepted.id), body)
        await self.catalog.write(Change([Add("requests", {**values, "body": inline})], files))

    async def refuse(self, tenant: str, run: Run, number: int) -> None:
        """A number that a refused request has used."""
        values = {"id": f"{run.id}:{number}", "tenant": tenant, "owner": run.id, "number": number}
        row = {**values, "kind": "refused", "media": JSON, "accepted": plain(now())}
        await self.write(Add("requests", row))

    async def done(self, accepted: Accepted, outcome: Outcome) -> None:
        """The reply, and what the request did. StorageFault: neither has happened; the failure is written later."""
        inline, files = _placed(reply_file(accepted.id), outcome.reply.body)
        values: dict[str, Any] = {"reply": inline, "media": outcome.reply.media, "accumulates": outcome.accumulates}
        gone = outcome.gone
        if outcome.accumulates is None:
            values["body"] = None
            gone = (*gone, body_file(accepted.id))
        debts, self._debts = self._debts, []
        mine = [*debts, Set("requests", {"id": accepted.id}, values), *outcome.statements]
        try:
            await self.catalog.write(Change(mine, files, gone))
        except StorageFault:
            self._debts = [*debts, *self._debts, Set("requests", {"id": accepted.id}, {"body": None, "media": JSON})]
            raise

    async def forget(self, run: Run | None, ids: list[str], number: int) -> None:
        """Results that nobody needs any more, of one owner; `number` is the highest among them."""
        kept = [] if run is None else [one for one in ids if one in run.accumulating]
        statements: list[Statement] = [Remove("requests", {"id": [one for one in ids if one not in kept]})]
        if kept:
            statements.append(Set("requests", {"id": kept}, {"reply": None}))
        if run is not None and number > run.forgotten:
            run.forgotten = number
            statements.append(Set("runs", {"id": run.id}, {"forgotten": number}))
        await self.write(*statements, gone=[reply_file(one) for one in ids])

    def body(self, row: dict[str, Any]) -> bytes:
        """A request's body. OSError: its file is gone."""
        inline: bytes | None = row["body"]
        return self.catalog.files.read(body_file(row["id"])) if inline is None else inline

    def reply(self, row: dict[str, Any]) -> bytes | None:
        """A reply's body; None where it was forgotten."""
        inline: bytes | None = row["reply"]
        name = reply_file(row["id"])
        return self.catalog.files.read(name) if inline is None and self.catalog.files.has(name) else inline


def body_file(request_id: str) -> str:
    return f"{request_id}.body"


def reply_file(request_id: str) -> str:
    return f"{request_id}.reply"


def _placed(name: str, content: bytes) -> tuple[bytes | None, dict[str, bytes]]:
    """Small bytes stay in the row, large ones are a file."""
    return (content, {}) if len(content) <= INLINE_BYTES else (None, {name: content})


# -- rows ------------------------------------------------------------------------------------------------------


def session_row(session: Session) -> Add:
    values: dict[str, Any] = {"id": session.id, "tenant": session.tenant, "about": session.metadata}
    values |= {"project": session.project}
    values |= {"finished": session.finished, "ending": session.ending}
    return Add("sessions", {**values, "display_name": session.display_name, "created": plain(session.created)})


def run_row(run: Run) -> Add:
    assert run.shape is not None
    values: dict[str, Any] = {"id": run.id, "session": run.session, "tenant": run.tenant, "about": run.metadata}
    values |= {"base": run.base, "shape": asdict(run.shape), "seed": run.seed, "snapshot": run.snapshot}
    values |= {"snapshot_number": run.snapshot_number, "forgotten": run.forgotten, "created": plain(run.created)}
    return Add("runs", values)


def sampler_row(sampler: Sampler, session: Session) -> Add:
    follows = None if sampler.follows is None else sampler.follows.id
    values = {"id": sampler.id, "session": session.id, "tenant": sampler.tenant, "version": sampler.version}
    return Add("samplers", {**values, "follows": follows, "model_path": sampler.model_path})


def version_row(version: PublishedVersion) -> Add:
    told = version.result
    values: dict[str, Any] = {"name": told.version, "run": version.run, "number": told.number}
    values |= {"content_hash": told.content_hash, "seconds": told.seconds, "nameless": version.nameless}
    return Add("versions", {**values, "folder": version.folder, "time": plain(version.time)})


def checkpoint_row(saved: Checkpoint, folder: str) -> Add:
    values: dict[str, Any] = {"path": saved.path, "run": saved.run.id, "kind": saved.kind, "name": saved.name}
    values |= {"folder": folder, "about": saved.metadata, "size": saved.size, "public": saved.public}
    expires = None if saved.expires is None else plain(saved.expires)
    return Add("checkpoints", {**values, "time": plain(saved.time), "expires": expires})


def step_row(run: Run, step: TakenStep) -> Add:
    return Add("steps", {"run": run.id, "number": step.number, "adam": asdict(step.adam), "gradient": step.gradient})


def read_step(row: dict[str, Any]) -> TakenStep:
    return TakenStep(row["number"], AdamW(**row["adam"]), row["gradient"])
