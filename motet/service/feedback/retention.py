"""What is not kept any longer goes: by age, and beyond a number of bytes."""

from __future__ import annotations

from datetime import timedelta

from motet.service.catalog.catalog import Catalog
from motet.service.catalog.changes import Change, Find, Remove, Statement
from motet.service.feedback.answers import Row
from motet.service.feedback.recorder import plain_now
from motet.service.feedback.recording import Recordings
from motet.service.feedback.settings import RecordSettings

PART = 500  # answers removed in one change
FILLED = 0.9  # of most_bytes, once the oldest have gone


class Retention:
    """Removes answers and the feedback to them. What a training had stays in its lineage, as a number."""

    def __init__(self, catalog: Catalog, settings: RecordSettings, recordings: Recordings) -> None:
        self._catalog = catalog
        self._settings = settings
        self._recordings = recordings

    async def sweep(self) -> int:
        """How many answers went."""
        settings, present = self._settings, plain_now()
        gone = 0
        for judged, days in ((False, settings.keep_days), (True, settings.keep_judged_days)):
            gone += await self._older(Find("answers", {"judged": judged}, below={"time": present - timedelta(days)}))
        for tenant, days in self._recordings.shorter():
            gone += await self._older(Find("answers", {"tenant": tenant}, below={"time": present - timedelta(days)}))
        return gone + await self._beyond_bytes()

    async def _older(self, wanted: Find) -> int:
        gone = 0
        while rows := await self._catalog.find(
            Find(wanted.table, wanted.where, {}, wanted.below, "number", PART, ("number", "tenant", "id", "judged"))
        ):
            await self._remove(rows)
            gone += len(rows)
        return gone

    async def _beyond_bytes(self) -> int:
        columns = ("number", "tenant", "id", "judged", "size")
        rows = await self._catalog.find(Find("answers", order="number", columns=columns))
        total = sum(row["size"] for row in rows)
        if total <= self._settings.most_bytes:
            return 0
        hopeless: list[Row] = []
        for row in sorted(rows, key=lambda row: (row["judged"], row["number"])):
            if total <= FILLED * self._settings.most_bytes:
                break
            hopeless.append(row)
            total -= row["size"]
        for start in range(0, len(hopeless), PART):
            await self._remove(hopeless[start : start + PART])
        return len(hopeless)

    async def _remove(self, rows: list[Row]) -> None:
        statements: list[Statement] = [Remove("answers", {"number": [row["number"] for row in rows]})]
        for tenant in {row["tenant"] for row in rows if row["judged"]}:
            answers = [row["id"] for row in rows if row["tenant"] == tenant and row["judged"]]
            statements.append(Remove("feedback", {"tenant": tenant, "answer": answers}))
        await self._catalog.write(Change(statements))
