"""What lies under the routes of records: a full queue, what is no longer kept, what is erased, who passes when."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import zstandard

from motet.service.catalog.catalog import Catalog
from motet.service.catalog.changes import Add, Change, Find, Set
from motet.service.feedback.answers import ABOUT, Given, unpacked
from motet.service.feedback.items import Offer
from motet.service.feedback.passage import Passages
from motet.service.feedback.recorder import plain_now
from motet.service.feedback.recording import Recording
from motet.service.feedback.records import PAGE_BYTES, Records
from motet.service.feedback.settings import RecordSettings
from motet.service.feedback.tempo import Tempo


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    made = Catalog(tmp_path)
    yield made
    made.close()


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 30))


def given(number: int, user: str = "u", text: str = "yes") -> Given:
    choice = {"index": 0, "text": text, "tool_calls": [], "finish_reason": "stop", "tokens": [1], "logprobs": [-0.5]}
    content = {"request": {"messages": []}, "prompt_tokens": [1, 2], "choices": [choice]}
    return Given("red", f"chatcmpl-{number}", "chat", "base", lambda: content, name="n", version=1, user=user)


def offer(answer: str, item: str, **said: Any) -> Offer:
    return Offer(item, answer, None, 0, None, said, f"digest of {item}")


async def numbers(catalog: Catalog, table: str = "answers") -> list[int]:
    return [row["number"] for row in await catalog.find(Find(table, order="number"))]


def test_a_full_queue_drops_and_tells(catalog: Catalog) -> None:
    async def play() -> None:
        records = Records(catalog, RecordSettings(most_waiting=4), b"secret")
        for number in range(10):
            records.record(given(number))  # nobody writes yet: nothing waits here
        assert (records.recorder.dropped, records.recorder.waiting) == (6, 4)
        writing = asyncio.create_task(records.recorder.work())
        await records.recorder.flush()
        writing.cancel()
        assert await numbers(catalog) == [1, 2, 3, 4] and records.recorder.written == 4

    run(play())


def test_a_disk_that_takes_nothing_fails_no_answer(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        records = Records(catalog, RecordSettings(), b"secret")
        writing = asyncio.create_task(records.recorder.work())
        with monkeypatch.context() as patched:
            patched.setattr(catalog.files, "write", lambda files: (_ for _ in ()).throw(OSError("no room")))
            records.record(given(1))
            await records.recorder.flush()
        assert (records.recorder.dropped, records.recorder.written) == (1, 0)
        records.record(given(2))
        await records.recorder.flush()
        writing.cancel()
        (row,) = await catalog.find(Find("answers"))
        assert row["id"] == "chatcmpl-2" and unpacked(row)["choices"][0]["logprobs"] == [-0.5]

    run(play())


def test_what_is_too_old_or_too_much_goes_and_what_was_judged_goes_last(catalog: Catalog) -> None:
    async def play() -> None:
        records = Records(catalog, RecordSettings(keep_days=10, keep_judged_days=100), b"secret")
        writing = asyncio.create_task(records.recorder.work())
        for number in range(6):
            records.record(given(number))
        await records.recorder.flush()
        writing.cancel()
        await records.book.give("red", offer("chatcmpl-0", "a", thumbs="up"))
        await records.book.give("red", offer("chatcmpl-1", "b", thumbs="up"))
        await age(catalog, {1: 50, 2: 101, 3: 11, 4: 9})
        assert await records.retention.sweep() == 2
        assert await numbers(catalog) == [1, 4, 5, 6] and await numbers(catalog, "feedback") == [1]
        size = (await catalog.find(Find("answers", limit=1)))[0]["size"]
        crowded = Records(catalog, RecordSettings(most_bytes=3 * size), b"secret")
        assert await crowded.retention.sweep() == 2
        assert await numbers(catalog) == [1, 6]

    run(play())


async def age(catalog: Catalog, days: dict[int, float]) -> None:
    for number, old in days.items():
        time = plain_now() - timedelta(old)
        await catalog.write(Change([Set("answers", {"number": number}, {"time": time})]))


def test_a_tenant_may_keep_less(catalog: Catalog) -> None:
    async def play() -> None:
        records = Records(catalog, RecordSettings(), b"secret")
        writing = asyncio.create_task(records.recorder.work())
        records.record(given(1))
        await records.recorder.flush()
        writing.cancel()
        await age(catalog, {1: 2})
        assert await records.retention.sweep() == 0
        await records.recordings.choose("red", Recording(keep_days=1))
        assert Records(catalog, RecordSettings(), b"").recordings.of("red").keep_days == 1
        assert await records.retention.sweep() == 1

    run(play())


def test_nothing_of_a_deleted_person_stays_in_the_file(catalog: Catalog, tmp_path: Path) -> None:
    async def play() -> None:
        records = Records(catalog, RecordSettings(), b"secret")
        writing = asyncio.create_task(records.recorder.work())
        records.record(given(1, user="somebody@example.org"))
        records.record(given(2, user="another@example.org"))
        await records.book.give("red", offer("chatcmpl-1", "a", correction="My secret garden."))
        assert b"secret garden" in stored(tmp_path) and b"somebody@" in stored(tmp_path)
        gone = await records.people.forget("red", "somebody@example.org")
        assert (gone.answers, gone.feedback) == (1, 1)
        assert b"secret garden" not in stored(tmp_path) and b"somebody@" not in stored(tmp_path)
        assert b"another@" in stored(tmp_path)
        writing.cancel()

    run(play())


def stored(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("catalog*"))


def test_pages_hold_so_many_bytes_and_lose_nothing(catalog: Catalog) -> None:
    async def play() -> None:
        records = Records(catalog, RecordSettings(), b"secret")
        row = {"tenant": "red", "time": plain_now(), "about": about(), "content": content(), "judged": False}
        sizes = [PAGE_BYTES // 2, PAGE_BYTES // 2, PAGE_BYTES * 2, 1, 1]
        for number, size in enumerate(sizes, 1):
            added = Add("answers", {**row, "number": number, "id": f"a{number}", "size": size})
            await catalog.write(Change([added]))
        pages, after = [], 0
        while page := await records.answers({"tenant": "red"}, after, 100):
            pages.append([one["number"] for one in page])
            after = pages[-1][-1]
        assert pages == [[1, 2], [3], [4, 5]]

    run(play())


def about() -> dict[str, Any]:
    return {**dict.fromkeys(ABOUT), "redacted": False, "choice_count": 1}


def content() -> bytes:
    return zstandard.compress(b'{"choices": []}')


def test_one_who_must_be_alone_is_alone_and_nobody_is_forgotten() -> None:
    inside: list[str] = []
    seen: list[list[str]] = []

    async def enter(passages: Passages, name: str) -> None:
        through = passages.alone("red") if name.isupper() else passages.together("red")
        async with through:
            inside.append(name)
            seen.append(list(inside))
            await asyncio.sleep(0.01)
            inside.remove(name)

    async def play() -> None:
        passages = Passages()
        await asyncio.gather(*(enter(passages, name) for name in "abAcdBef"))

    run(play())
    assert len(seen) == 8 and any(len(together) > 1 for together in seen)
    assert all(len(together) == 1 for together in seen if any(name.isupper() for name in together))


def test_a_source_may_say_a_minutes_worth_at_once_and_then_its_pace() -> None:
    now = [100.0]
    tempo = Tempo(6, clock=lambda: now[0])
    assert [tempo.too_fast("red", "a") for _ in range(8)] == [False] * 6 + [True] * 2
    assert not tempo.too_fast("red", "b") and not tempo.too_fast("blue", "a")
    now[0] += 20
    assert [tempo.too_fast("red", "a") for _ in range(2)] == [False, True]
