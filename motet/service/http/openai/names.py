"""What `model` may name: the base model, a sampler checkpoint, or an adapter in service."""

from __future__ import annotations

from dataclasses import dataclass

from motet.errors import BadRequest, NotFound
from motet.service.http.naming import Chosen
from motet.service.http.service import Service


@dataclass(frozen=True)
class Named:
    """A version of the engine's, and what it is called. version: None is the base model."""

    label: str
    version: str | None
    path: str | None = None
    name: str | None = None  # in service, and which of its versions
    number: int | None = None
    canary: bool = False  # a canary's share chose it


async def resolve(service: Service, tenant: str, model: str, conversation: str | None = None) -> Named:
    """The version that a name stands for now; the engine has it afterwards. NotFound, BadRequest.

    conversation: whatever is the same throughout one; a canary's share of traffic is decided by it.
    """
    info = service.engine.info
    if model in (info.name, info.folder):
        return Named(info.name, None)
    if model.startswith("tinker://"):
        chosen = Chosen(model, model)
    else:
        chosen = service.names.choose(tenant, model, conversation)
    checkpoint = service.registry.readable(tenant, chosen.path)
    if checkpoint.kind != "sampler_weights":
        raise BadRequest(f"{chosen.path} is training state: name a path that save_weights_for_sampler gave")
    version = service.registry.versions.get(checkpoint.path)
    if version is None:
        raise NotFound(f"the version {checkpoint.path} has been let go: save it again")
    await service.present(version)
    return Named(chosen.label, checkpoint.path, checkpoint.path, chosen.name, chosen.number, chosen.canary)
