"""Names in service: bring a version, promote it, take it back, pin it, give a candidate some traffic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from motet.errors import BadRequest
from motet.service.catalog.changes import Statement
from motet.service.http import naming
from motet.service.http.deps import Svc, Tenant
from motet.service.http.naming import Name, Word
from motet.service.http.service import Service

router = APIRouter(prefix="/serving")


class Why(BaseModel):
    """For the record."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field(default="", max_length=2000)
    by: str = Field(default="", max_length=200)

    @property
    def word(self) -> Word:
        return Word(self.reason, self.by)


class Bring(Why):
    """A sampler checkpoint under a name, and the training that it comes of."""

    path: str
    about: str = Field(default="", max_length=2000)
    training: str | None = None


class Choose(Why):
    """A version by its number."""

    version: int = Field(ge=1)


class Pin(Why):
    """A version, or none any more."""

    version: int | None = Field(ge=1)


class Canary(Why):
    """The candidate's share of traffic."""

    share: float


@router.get("")
async def list_names(service: Svc, tenant: Tenant) -> dict[str, Any]:
    """All names of the caller."""
    return {"names": [told(name) for name in service.names.of(tenant)]}


@router.get("/{name}")
async def show_name(name: str, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """What a name stands for, its versions and everything that was done to it."""
    return told(service.names.find(tenant, name))


@router.post("/{name}/versions")
async def bring_version(name: str, body: Bring, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """A new version, the candidate from now on; the first one of a name serves at once."""
    checkpoint = service.registry.checkpoint(tenant, body.path)
    if checkpoint.kind != "sampler_weights":
        raise BadRequest(f"{body.path} is training state: name a path that save_weights_for_sampler gave")
    if checkpoint.expires is not None:
        raise BadRequest(f"{body.path} expires: let it live for ever (ttl null) before it serves")
    async with service.naming, service.records.passages.alone(tenant):
        before = service.names.open(tenant, name)
        after = naming.brought(before, checkpoint.path, Word(body.about, body.by))
        closing: Sequence[Statement] = ()
        if body.training is not None:
            row = await service.records.trainings.row_of(tenant, body.training, name)
            number = next(one.number for one in after.versions if one.path == checkpoint.path)
            closing = service.records.trainings.closing(row, checkpoint.path, number, body.about)
        await _keep(service, before, after, closing)
    service.warm_words()
    return told(after)


@router.post("/{name}/promote")
async def promote_version(name: str, body: Choose, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """A version serves from the next request on."""
    return await _change(service, tenant, name, lambda it: naming.promoted(it, body.version, body.word))


@router.post("/{name}/rollback")
async def roll_back(name: str, body: Why, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """The version before serves again."""
    return await _change(service, tenant, name, lambda it: naming.rolled_back(it, body.word))


@router.post("/{name}/pin")
async def pin_version(name: str, body: Pin, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """A version serves whatever is promoted; null takes the pin away."""
    return await _change(service, tenant, name, lambda it: naming.pinned(it, body.version, body.word))


@router.post("/{name}/canary")
async def set_canary(name: str, body: Canary, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """The candidate takes a share of the traffic, sticky by conversation."""
    return await _change(service, tenant, name, lambda it: naming.canaried(it, body.share, body.word))


async def _change(service: Service, tenant: str, name: str, change: Callable[[Name], Name]) -> dict[str, Any]:
    """One change after the other."""
    async with service.naming:
        before = service.names.find(tenant, name)
        after = change(before)
        await _keep(service, before, after)
    return told(after)


async def _keep(service: Service, before: Name, after: Name, beside: Sequence[Statement] = ()) -> None:
    """Written down first, then it counts."""
    if after is not before or beside:
        await service.journal.write(*naming.statements(before, after), *beside)
        service.names.keep(after)


def told(name: Name) -> dict[str, Any]:
    return {
        "name": name.name,
        "serving": name.serving,
        "candidate": name.candidate,
        "canary": name.canary,
        "pinned": name.pinned,
        "versions": [
            {"version": one.number, "path": one.path, "time": one.time.isoformat(), "about": one.about}
            for one in name.versions
        ],
        "history": [
            {
                "event": one.event,
                "version": one.number,
                "time": one.time.isoformat(),
                "reason": one.reason,
                "by": one.by,
            }
            for one in name.turns
        ],
    }
