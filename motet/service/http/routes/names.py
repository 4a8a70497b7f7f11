"""Names in service: bring a version, promote it, take it back, pin it, give a candidate some traffic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from motet.errors import BadRequest
from motet.service.http import naming
from motet.service.http.deps import Svc, Tenant
from motet.service.http.naming import Name
from motet.service.http.service import Service

router = APIRouter(prefix="/serving")
Reason = Field(default="", max_length=2000)


class Bring(BaseModel):
    """A sampler checkpoint under a name."""

    model_config = ConfigDict(extra="forbid")
    path: str
    about: str = Reason


class Choose(BaseModel):
    """A version by its number."""

    model_config = ConfigDict(extra="forbid")
    version: int = Field(ge=1)
    reason: str = Reason


class Pin(BaseModel):
    """A version, or none any more."""

    model_config = ConfigDict(extra="forbid")
    version: int | None = Field(ge=1)
    reason: str = Reason


class Canary(BaseModel):
    """The candidate's share of traffic."""

    model_config = ConfigDict(extra="forbid")
    share: float
    reason: str = Reason


class Why(BaseModel):
    """For the record."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Reason


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
    return await _change(service, tenant, name, lambda it: naming.brought(it, checkpoint.path, body.about), new=True)


@router.post("/{name}/promote")
async def promote_version(name: str, body: Choose, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """A version serves from the next request on."""
    return await _change(service, tenant, name, lambda it: naming.promoted(it, body.version, body.reason))


@router.post("/{name}/rollback")
async def roll_back(name: str, body: Why, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """The version before serves again."""
    return await _change(service, tenant, name, lambda it: naming.rolled_back(it, body.reason))


@router.post("/{name}/pin")
async def pin_version(name: str, body: Pin, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """A version serves whatever is promoted; null takes the pin away."""
    return await _change(service, tenant, name, lambda it: naming.pinned(it, body.version, body.reason))


@router.post("/{name}/canary")
async def set_canary(name: str, body: Canary, service: Svc, tenant: Tenant) -> dict[str, Any]:
    """The candidate takes a share of the traffic, sticky by conversation."""
    return await _change(service, tenant, name, lambda it: naming.canaried(it, body.share, body.reason))


async def _change(
    service: Service, tenant: str, name: str, change: Callable[[Name], Name], new: bool = False
) -> dict[str, Any]:
    """One change after the other: written down first, then it counts."""
    async with service.naming:
        before = service.names.open(tenant, name) if new else service.names.find(tenant, name)
        after = change(before)
        await service.journal.write(*naming.statements(before, after))
        service.names.keep(after)
    return told(after)


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
            {"event": one.event, "version": one.number, "time": one.time.isoformat(), "reason": one.reason}
            for one in name.turns
        ],
    }
