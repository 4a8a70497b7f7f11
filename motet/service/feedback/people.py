"""Deleting a person's data: what they asked, what was said of it, what they said; and who learned from it."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from motet.service.catalog.catalog import Catalog
from motet.service.catalog.changes import Change, Find, Remove, Set, Statement
from motet.service.feedback.answers import Row
from motet.service.feedback.passage import Passages
from motet.service.feedback.recorder import Recorder
from motet.service.feedback.trainings import TrainingBook

CHUNK = 1000  # ids in one statement


@dataclass(frozen=True)
class Rebuild:
    """From where, and from what, a name's adapter is made again without a person's data."""

    name: str
    parent: str | None  # the last version before, None: the base model
    items: list[int]  # what is left of what the affected versions learned from


@dataclass(frozen=True)
class Affected:
    """A version that learned from what was deleted, itself or through its parents."""

    name: str
    version: int | None
    path: str
    training: str
    items: int  # deleted ones among its own


@dataclass(frozen=True)
class Forgotten:
    """What was deleted."""

    answers: int
    feedback: int
    versions: list[Affected]
    rebuilds: list[Rebuild]


class People:
    """Those whose data stands in the records."""

    def __init__(
        self, catalog: Catalog, recorder: Recorder, trainings: TrainingBook, passages: Passages, secret: bytes
    ) -> None:
        self._catalog = catalog
        self._recorder = recorder
        self._trainings = trainings
        self._passages = passages
        self._secret = secret

    async def forget(self, tenant: str, user: str) -> Forgotten:
        """Delete everything of a user's. Asked again it tells again who learned from it."""
        mark = self._mark(tenant, user)
        async with self._passages.alone(tenant):
            await self._recorder.flush()
            answers = await self._ids("answers", {"tenant": tenant, "user": user}, "id")
            numbers = set(await self._ids("feedback", {"tenant": tenant, "source": user}, "number"))
            for part in _chunks(answers):
                numbers |= set(await self._ids("feedback", {"tenant": tenant, "answer": part}, "number"))
            statements: list[Statement] = [Remove("answers", {"tenant": tenant, "user": user})]
            for part in _chunks(sorted(numbers)):
                statements.append(Remove("feedback", {"tenant": tenant, "number": part}))
                statements.append(Set("lineage", {"feedback": part}, {"forgotten": mark}))
            await self._catalog.write(Change(statements, erase=True))
            return Forgotten(len(answers), len(numbers), *await self._consequences(tenant, mark))

    def _mark(self, tenant: str, user: str) -> str:
        """What stays of a person: nobody without the server's secret can tell who it was."""
        return hmac.digest(self._secret, f"{tenant}\0{user}".encode(), "sha256").hex()

    async def _ids(self, table: str, where: dict[str, Any], column: str) -> list[Any]:
        return [row[column] for row in await self._catalog.find(Find(table, where, columns=[column]))]

    async def _consequences(self, tenant: str, mark: str) -> tuple[list[Affected], list[Rebuild]]:
        """Trainings that had what is gone, and all that came of them."""
        rows = await self._catalog.find(Find("trainings", {"tenant": tenant, "state": "done"}, order="opened"))
        lineage = await self._trainings.lineage([row["id"] for row in rows])
        had = {row["id"]: _learned(lineage[row["id"]], mark) for row in rows}
        tainted: dict[str, Row] = {}  # by path
        while fresh := [
            row for row in rows if row["path"] not in tainted and (had[row["id"]] or row["parent"] in tainted)
        ]:
            tainted |= {row["path"]: row for row in fresh}
        affected = [
            Affected(row["name"], row["version"], row["path"], row["id"], had[row["id"]]) for row in tainted.values()
        ]
        return affected, [
            _rebuild(name, tainted, lineage) for name in sorted({row["name"] for row in tainted.values()})
        ]


def _learned(lineage: list[Row], mark: str) -> int:
    """How many items of a person a training has learned from."""
    return sum(row["forgotten"] == mark and row["role"] != "held_out" for row in lineage)


def _rebuild(name: str, tainted: dict[str, Row], lineage: dict[str, list[Row]]) -> Rebuild:
    own = [row for row in tainted.values() if row["name"] == name]
    parent = next((row["parent"] for row in own if row["parent"] not in tainted), None)
    left = {
        one["feedback"]
        for row in own
        for one in lineage[row["id"]]
        if one["role"] != "held_out" and one["forgotten"] is None
    }
    return Rebuild(name, parent, sorted(left))


def _chunks(ids: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(ids), CHUNK):
        yield ids[start : start + CHUNK]
