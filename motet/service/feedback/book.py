"""The book of feedback: what is said goes in once, is on the disk before its receipt, and is read in order."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from motet.errors import BadRequest, NotFound
from motet.service.catalog.catalog import Catalog
from motet.service.catalog.changes import Add, Change, Find, Set, Statement
from motet.service.feedback.answers import Given, Row, packed
from motet.service.feedback.items import Offer, Past, Receipt, receipt
from motet.service.feedback.passage import Passages
from motet.service.feedback.recorder import Numbers, Recorder, plain_now
from motet.service.feedback.redaction import Redaction
from motet.service.feedback.tempo import Tempo

MOST_A_ANSWER = 64  # items
TOO_FAST = "more from this source than feedback_per_minute"


class FeedbackBook:
    """Everybody's feedback."""

    def __init__(
        self,
        catalog: Catalog,
        recorder: Recorder,
        redaction: Redaction,
        tempo: Tempo,
        answer_numbers: Numbers,
        passages: Passages,
    ) -> None:
        self._catalog = catalog
        self._recorder = recorder
        self._redaction = redaction
        self._tempo = tempo
        self._answer_numbers = answer_numbers
        self._passages = passages
        self._numbers = Numbers(catalog.most("feedback", "number"))
        self._giving: dict[tuple[str, str], asyncio.Lock] = {}  # by tenant and id: those on their way
        self.given = 0

    async def give(self, tenant: str, offer: Offer) -> Receipt:
        """Take it in. BadRequest: the id was given to something else, or too much is said of one answer.

        NotFound: there is no record of the answer.
        """
        async with self._passages.together(tenant), self._one_at_a_time(tenant, offer.id):
            known = await self._catalog.find(Find("feedback", {"tenant": tenant, "id": offer.id}))
            if known:
                if known[0]["digest"] != offer.digest:
                    raise BadRequest(f"the id {offer.id!r} was given to other feedback: choose another one")
                return receipt(known[0], duplicate=True)
            answer, before = await self._answer(tenant, offer)
            row = self._row(tenant, offer, answer)
            self.given += 1
            return receipt(await self._write(row, before), duplicate=False)

    async def quarantine(self, tenant: str, numbers: list[int], reason: str | None) -> None:
        """No training takes these; with reason None they are let out. BadRequest: some are not there or are claimed."""
        async with self._passages.alone(tenant):
            rows = await self.by_number(tenant, numbers)
            if taken := [row["number"] for row in rows if row["training"] is not None and reason is not None]:
                raise BadRequest(f"{taken[:10]} belong to a training already: close it first")
            where = {"tenant": tenant, "number": numbers}
            await self._catalog.write(Change([Set("feedback", where, {"quarantine": reason})]))

    async def by_number(self, tenant: str, numbers: list[int]) -> list[Row]:
        """BadRequest names those that are not there."""
        rows = await self._catalog.find(Find("feedback", {"tenant": tenant, "number": numbers}, order="number"))
        if missing := sorted(set(numbers) - {row["number"] for row in rows}):
            raise BadRequest(f"there is no feedback with the numbers {missing[:10]}: it was deleted, or never given")
        return rows

    # -- taking in ---------------------------------------------------------------------------------------------

    async def _answer(self, tenant: str, offer: Offer) -> tuple[Row, list[Statement]]:
        """The answer's row, and what must be written before the item where it is an answer of elsewhere."""
        if offer.past is not None:
            given = _given(tenant, offer.id, offer.past)
            row = await asyncio.to_thread(packed, given, self._redaction, plain_now())
            return row, [Add("answers", {**row, "judged": True})]
        assert offer.response_id is not None
        row = await self.answer(tenant, offer.response_id)
        _check_choice(row, offer.choice)
        if offer.preferred_answer is not None:
            _check_choice(await self.answer(tenant, offer.preferred_answer), offer.preferred_choice or 0)
        elif offer.preferred_choice is not None:
            _check_choice(row, offer.preferred_choice)
            if offer.preferred_choice == offer.choice:
                raise BadRequest("preferred names the choice itself: name the better one")
        wanted = Find("feedback", {"tenant": tenant, "answer": row["id"]}, columns=["number"], limit=MOST_A_ANSWER)
        if len(await self._catalog.find(wanted)) >= MOST_A_ANSWER:
            raise BadRequest(f"{MOST_A_ANSWER} things are said of {row['id']} already: no more are kept")
        return row, [Set("answers", {"number": row["number"]}, {"judged": True})]

    async def answer(self, tenant: str, answer: str) -> Row:
        """Its row. NotFound."""
        await self._recorder.settled(tenant, answer)
        rows = await self._catalog.find(Find("answers", {"tenant": tenant, "id": answer}))
        if not rows:
            raise NotFound(f"there is no record of {answer!r}: it was not stored, or is no longer kept")
        return rows[0]

    def _row(self, tenant: str, offer: Offer, answer: Row) -> Row:
        source = answer["user"] if offer.source is None else offer.source
        hasty = offer.past is None and source is not None and self._tempo.too_fast(tenant, source)
        return {
            "tenant": tenant,
            "id": offer.id,
            "answer": answer["id"],
            "name": answer["name"],
            "version": answer["version"],
            "source": source,
            "said": self._redaction.value({**offer.said, "choice": offer.choice}),
            "digest": offer.digest,
            "quarantine": TOO_FAST if hasty else None,
            "training": None,
        }

    async def _write(self, row: Row, before: list[Statement]) -> Row:
        whole = {**row, "number": self._numbers.next(), "time": plain_now()}
        if before and isinstance(before[0], Add):
            before = [Add("answers", {**before[0].values, "number": self._answer_numbers.next()})]
        await self._catalog.write(Change([*before, Add("feedback", whole)]))
        return whole

    @asynccontextmanager
    async def _one_at_a_time(self, tenant: str, item: str) -> AsyncIterator[None]:
        """The same item sent twice at once goes in once."""
        lock = self._giving.setdefault((tenant, item), asyncio.Lock())
        async with lock:
            yield
        if not lock.locked():
            self._giving.pop((tenant, item), None)


def _check_choice(row: Row, choice: int) -> None:
    count = row["about"]["choice_count"]
    if not 0 <= choice < count:
        raise BadRequest(f"{row['id']} has no choice {choice}: it has {count}, counted from 0")


def _given(tenant: str, item: str, past: Past) -> Given:
    """As if it had been answered here, without tokens."""
    request: dict[str, Any] = {"model": past.model, "messages": past.messages[:-1]}
    last = past.messages[-1]
    choice = {"index": 0, "text": last.get("content") or "", "tool_calls": last.get("tool_calls") or []}
    choices = [{**choice, "finish_reason": "stop", "tokens": [], "logprobs": []}]
    content = {
        "request": request | ({"tools": past.tools} if past.tools else {}),
        "prompt_tokens": [],
        "choices": choices,
    }
    digest = hashlib.sha256(f"{tenant}\0{item}".encode()).hexdigest()[:32]
    return Given(
        tenant,
        f"past-{digest}",
        "past",
        past.model,
        lambda: content,
        name=past.model,
        user=past.user,
        conversation=past.conversation,
    )
