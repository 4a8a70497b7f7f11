"""What was said of a version, in numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from motet.service.catalog.catalog import Catalog
from motet.service.catalog.changes import Find


@dataclass(frozen=True)
class Summary:
    """Counts over all feedback to a version that is not in quarantine."""

    items: int
    up: int
    down: int
    corrections: int
    preferences: int
    accepted: int
    retried: int
    escalated: int
    mean_score: float | None  # of those that gave one
    mean_outcome: float | None


async def summary(catalog: Catalog, tenant: str, name: str, version: int) -> Summary:
    """Read the version's feedback. StorageFault."""
    where = {"tenant": tenant, "name": name, "version": version, "quarantine": None}
    said: list[dict[str, Any]] = [row["said"] for row in await catalog.find(Find("feedback", where, columns=["said"]))]
    words = Counter(one[key] for one in said for key in ("thumbs", "event") if key in one)
    return Summary(
        items=len(said),
        up=words["up"],
        down=words["down"],
        corrections=sum("correction" in one for one in said),
        preferences=sum("preferred" in one for one in said),
        accepted=words["accepted"],
        retried=words["retried"],
        escalated=words["escalated"],
        mean_score=_mean([one["score"] for one in said if "score" in one]),
        mean_outcome=_mean([one["outcome"]["score"] for one in said if "outcome" in one]),
    )


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
