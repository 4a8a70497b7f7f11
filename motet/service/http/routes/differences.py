"""What lies between two versions of a name: trainings, recipes, and what was said of each."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from motet.service.feedback.summary import summary
from motet.service.http.deps import Svc, Tenant
from motet.service.http.naming import Name
from motet.service.http.service import Service

router = APIRouter(prefix="/serving")
Number = Annotated[int, Query(ge=1, lt=2**63)]


@router.get("/{name}/diff")
async def compare_versions(name: str, service: Svc, tenant: Tenant, before: Number, after: Number) -> dict[str, Any]:
    """Two versions side by side."""
    found = service.names.find(tenant, name)
    trainings = await service.records.trainings.all(tenant, name, "done")
    by_path = {one["path"]: one for one in trainings}
    first = await _version(service, found, before, by_path)
    second = await _version(service, found, after, by_path)
    recipes = [(one["training"] or {}).get("recipe", {}) for one in (first, second)]
    changed = {
        key: [recipe.get(key) for recipe in recipes]
        for key in sorted({*recipes[0], *recipes[1]})
        if recipes[0].get(key) != recipes[1].get(key)
    }
    between = _between(by_path, first["path"], second["path"])
    return {"name": name, "before": first, "after": second, "recipe": changed, "trainings": between}


async def _version(service: Service, name: Name, number: int, trainings: dict[str, dict[str, Any]]) -> dict[str, Any]:
    version = name.version(number)
    published = service.registry.versions.get(version.path)
    training = trainings.get(version.path)
    plain = training and {key: value for key, value in training.items() if not isinstance(value, list)}
    said = await summary(service.journal.catalog, name.tenant, name.name, number)
    return {
        "version": number,
        "path": version.path,
        "content_hash": None if published is None else published.result.content_hash,
        "time": version.time.isoformat(),
        "about": version.about,
        "training": plain,
        "feedback": vars(said),
    }


def _between(trainings: dict[str, dict[str, Any]], before: str, after: str) -> list[str] | None:
    """The trainings that made the one of the other, oldest first; None: it does not descend from it."""
    chain: list[str] = []
    path: str | None = after
    while path != before:
        training = trainings.get(path or "")
        if training is None or training["training"] in chain:
            return None
        chain.append(training["training"])
        path = training["parent"]
    return chain[::-1]
