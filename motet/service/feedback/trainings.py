"""Claims: which training has which items of feedback. Nothing is learned from twice, and all of it is on record."""

from __future__ import annotations

import secrets
from collections import defaultdict
from typing import Any

from motet.errors import BadRequest, NotFound
from motet.service.catalog.catalog import Catalog
from motet.service.catalog.changes import Add, Change, Find, Set, Statement
from motet.service.feedback.answers import Row
from motet.service.feedback.book import FeedbackBook
from motet.service.feedback.passage import Passages
from motet.service.feedback.recorder import plain_now
from motet.service.feedback.training import CLAIMING, Plan, told


class TrainingBook:
    """Everybody's trainings."""

    def __init__(self, catalog: Catalog, book: FeedbackBook, passages: Passages) -> None:
        self._catalog = catalog
        self._book = book
        self._passages = passages

    async def claim(self, tenant: str, plan: Plan) -> dict[str, Any]:
        """All its items or none. BadRequest names what is taken, gone or in quarantine."""
        async with self._passages.alone(tenant):
            known = await self._catalog.find(Find("trainings", {"tenant": tenant, "key": plan.key}))
            if known:
                if known[0]["digest"] != plan.digest:
                    raise BadRequest(f"the key {plan.key!r} was given to another training: choose another one")
                return await self._told(known[0])
            await self._check(tenant, plan)
            row = _row(tenant, plan)
            await self._catalog.write(Change([Add("trainings", row), *_claims(tenant, row["id"], plan)]))
            return await self._told(row)

    async def show(self, tenant: str, training: str) -> dict[str, Any]:
        """One of them. NotFound."""
        return await self._told(await self._find(tenant, training))

    async def all(self, tenant: str, name: str | None, state: str | None) -> list[dict[str, Any]]:
        """A tenant's, oldest first."""
        where = {"tenant": tenant} | {key: is_ for key, is_ in (("name", name), ("state", state)) if is_ is not None}
        rows = await self._catalog.find(Find("trainings", where, order="opened"))
        lineage = await self.lineage([row["id"] for row in rows])
        return [told(row, lineage[row["id"]]) for row in rows]

    async def close(self, tenant: str, training: str, path: str | None, reason: str) -> dict[str, Any]:
        """Done with a checkpoint, or given up (None): then its items are free again. Again is nothing."""
        async with self._passages.alone(tenant):
            row = await self._find(tenant, training)
            statements = self.closing(row, path, None, reason)
            if statements:
                await self._catalog.write(Change(statements))
            return await self._told(await self._find(tenant, training))

    async def row_of(self, tenant: str, training: str, name: str) -> Row:
        """The training that a version of a name comes of. NotFound; BadRequest: it is another name's."""
        row = await self._find(tenant, training)
        if row["name"] != name:
            raise BadRequest(f"{training} is a training of {row['name']}, not of {name}")
        return row

    def closing(self, row: Row, path: str | None, version: int | None, reason: str) -> list[Statement]:
        """What must be written. BadRequest: it was closed otherwise before."""
        state = "abandoned" if path is None else "done"
        if row["state"] != "open" and (row["state"], row["path"]) != (state, path):
            raise BadRequest(
                f"{row['id']} is {row['state']} already" + (f", with {row['path']}" if row["path"] else "")
            )
        if row["state"] == "abandoned":
            return []
        values: dict[str, Any] = {"state": state, "path": path, "reason": reason or row["reason"]}
        values |= {"closed": row["closed"] or plain_now(), "version": version or row["version"]}
        statements: list[Statement] = [Set("trainings", {"id": row["id"]}, values)]
        if path is None:
            statements.append(Set("feedback", {"tenant": row["tenant"], "training": row["id"]}, {"training": None}))
        return statements

    async def lineage(self, trainings: list[str]) -> defaultdict[str, list[Row]]:
        """What each of them had."""
        found: defaultdict[str, list[Row]] = defaultdict(list)
        for row in await self._catalog.find(Find("lineage", {"training": trainings})):
            found[row["training"]].append(row)
        return found

    async def _check(self, tenant: str, plan: Plan) -> None:
        roles = plan.roles()
        if len(roles) != len(plan.items) + len(plan.replayed) + len(plan.held_out):
            raise BadRequest("an item is named twice: it is an item, a replayed one or a held-out one")
        rows = await self._book.by_number(tenant, list(roles))
        claimed = [row["number"] for row in rows if row["training"] is not None and roles[row["number"]] in CLAIMING]
        if claimed:
            raise BadRequest(f"{claimed[:10]} belong to another training: leave them out, or name them as replayed")
        if doubted := [row["number"] for row in rows if row["quarantine"] is not None]:
            raise BadRequest(f"{doubted[:10]} are in quarantine: leave them out")
        if strange := [row["number"] for row in rows if row["name"] != plan.name]:
            raise BadRequest(f"{strange[:10]} are no feedback to {plan.name}: leave them out")

    async def _find(self, tenant: str, training: str) -> Row:
        rows = await self._catalog.find(Find("trainings", {"tenant": tenant, "id": training}))
        if not rows:
            raise NotFound(f"there is no training {training!r}")
        return rows[0]

    async def _told(self, row: Row) -> dict[str, Any]:
        return told(row, (await self.lineage([row["id"]]))[row["id"]])


def _row(tenant: str, plan: Plan) -> Row:
    row: Row = {"id": f"tr-{secrets.token_hex(12)}", "tenant": tenant, "key": plan.key, "name": plan.name}
    row |= {"state": "open", "parent": plan.parent, "recipe": plan.recipe, "digest": plan.digest, "reason": ""}
    return row | {"opened": plain_now(), "closed": None, "path": None, "version": None}


def _claims(tenant: str, training: str, plan: Plan) -> list[Statement]:
    claimed = [*plan.items, *plan.held_out]
    values = ({"training": training, "feedback": number, "role": role} for number, role in plan.roles().items())
    statements: list[Statement] = [Add("lineage", {**one, "forgotten": None}) for one in values]
    if claimed:
        statements.append(Set("feedback", {"tenant": tenant, "number": claimed}, {"training": training}))
    return statements
