"""Everything that a deployment learns from, put together."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

from motet.service.catalog.catalog import Catalog
from motet.service.catalog.changes import Find, StorageFault
from motet.service.feedback.answers import Given, unpacked
from motet.service.feedback.book import FeedbackBook
from motet.service.feedback.items import told
from motet.service.feedback.passage import Passages
from motet.service.feedback.people import People
from motet.service.feedback.recorder import Numbers, Recorder
from motet.service.feedback.recording import Recordings
from motet.service.feedback.redaction import Redaction
from motet.service.feedback.retention import Retention
from motet.service.feedback.settings import RecordSettings
from motet.service.feedback.tempo import Tempo
from motet.service.feedback.trainings import TrainingBook

SWEEP_SECONDS = 600.0
PAGE_BYTES = 8 * 1024**2  # of packed answers in one page


class Records:
    """Answers, feedback, trainings, people; each in a file of its own."""

    def __init__(self, catalog: Catalog, settings: RecordSettings, secret: bytes) -> None:
        redaction = Redaction(settings.redact)
        self.passages = passages = Passages()
        numbers = Numbers(catalog.most("answers", "number"))
        self._catalog = catalog
        self._settings = settings
        self.recordings = Recordings(catalog, catalog.rows("recording"))
        self.recorder = Recorder(catalog, redaction, numbers, settings.most_waiting)
        tempo = Tempo(settings.feedback_per_minute)
        self.book = FeedbackBook(catalog, self.recorder, redaction, tempo, numbers, passages)
        self.trainings = TrainingBook(catalog, self.book, passages)
        self.people = People(catalog, self.recorder, self.trainings, passages, secret)
        self.retention = Retention(catalog, settings, self.recordings)

    def wanted(self, tenant: str) -> bool:
        """Are this tenant's answers recorded? The server's and the tenant's to say."""
        return self._settings.enabled and self.recordings.of(tenant).store

    def record(self, given: Given) -> None:
        """An answer that was given. At once."""
        self.recorder.take(given)

    async def keep_tidy(self) -> None:
        """Remove what is too old, again and again, for as long as the server stands."""
        while True:
            with contextlib.suppress(StorageFault):  # the next time has it all
                await self.retention.sweep()
            await asyncio.sleep(SWEEP_SECONDS)

    async def answers(self, where: dict[str, Any], after: int, limit: int) -> list[dict[str, Any]]:
        """Records in their order, as many as a page holds."""
        columns = ("number", "size")
        sizes = await self._catalog.find(Find("answers", where, {"number": after}, {}, "number", limit, columns))
        taken = [row["number"] for row in sizes[: _fitting([row["size"] for row in sizes])]]
        return await self._unpacked({"tenant": where["tenant"], "number": taken})

    async def items(
        self, where: dict[str, Any], quarantined: bool | None, after: int, limit: int, answers: bool
    ) -> list[dict[str, Any]]:
        """Feedback in its order; with `answers` each with its record (None: not kept), as many as a page holds."""
        above: dict[str, Any] = {"number": after} | ({"quarantine": ""} if quarantined else {})
        where = where | ({"quarantine": None} if quarantined is False else {})
        rows = await self._catalog.find(Find("feedback", where, above, {}, "number", limit))
        items = [told(row) for row in rows]
        if not answers:
            return items
        own = {"tenant": where["tenant"], "id": [item["response_id"] for item in items]}
        sizes = {
            row["id"]: row["size"] for row in await self._catalog.find(Find("answers", own, columns=("id", "size")))
        }
        items = items[: _fitting([sizes.get(item["response_id"], 0) for item in items])]
        found = await self._unpacked({**own, "id": [item["response_id"] for item in items]})
        by_id = {record["id"]: record for record in found}
        return [{**item, "answer": by_id.get(item["response_id"])} for item in items]

    async def _unpacked(self, where: dict[str, Any]) -> list[dict[str, Any]]:
        rows = await self._catalog.find(Find("answers", where, order="number"))
        return await asyncio.to_thread(lambda: [unpacked(row) for row in rows])


def _fitting(sizes: list[int]) -> int:
    """How many of the first make a page; one at least."""
    whole = list(itertools.accumulate(sizes))
    return max(sum(total <= PAGE_BYTES for total in whole), min(len(sizes), 1))
