"""Which sampling requests have ended, told in order, again and again until they were seen."""

from __future__ import annotations

import asyncio

from motet.service.http.completions import CLIENT, Completion, Completions, Target, target_of

SAMPLER = "abc:sample:3"
TARGET = Target(SAMPLER, 0)


def ids(found: list[Completion]) -> list[str]:
    return [one.request_id.rpartition(":")[2] for one in found]


def test_a_request_belongs_to_one_client_of_its_sampler() -> None:
    assert target_of(f"{SAMPLER}:7") == TARGET
    assert target_of(f"{SAMPLER}:{4 * CLIENT + 7}") == Target(SAMPLER, 4)
    assert target_of("abc:train:3:7") is None


async def _tell() -> None:
    logs = Completions()
    logs.note(f"{SAMPLER}:0", 10, failed=False)
    logs.note(f"{SAMPLER}:1", 20, failed=True)
    logs.note(f"{SAMPLER}:{CLIENT}", 30, failed=False)
    logs.note("abc:train:3:7", 40, failed=False)
    first = await logs.after(TARGET, 0, 0)
    assert ids(first) == ["0", "1"] and [one.failed for one in first] == [False, True]
    assert ids(await logs.after(TARGET, 0, 0)) == ["0", "1"]  # the answer was lost: the same again
    assert ids(await logs.after(TARGET, first[0].number, 0)) == ["1"]
    assert ids(await logs.after(TARGET, first[1].number, 0)) == []
    assert ids(await logs.after(Target(SAMPLER, 1), 0, 0)) == [str(CLIENT)]
    logs.forget(f"{SAMPLER}:{CLIENT}")
    logs.forget("abc:train:3:7")
    assert logs.targets == 0  # what was seen, and what is not kept, takes no space


def test_what_ended_is_told_until_it_was_seen() -> None:
    asyncio.run(_tell())


async def _wait() -> None:
    logs = Completions()
    waiting = asyncio.create_task(logs.after(TARGET, 0, 30))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    logs.note(f"{SAMPLER}:{5 * CLIENT}", 1, failed=False)  # somebody else's
    await asyncio.sleep(0.01)
    assert not waiting.done()
    logs.note(f"{SAMPLER}:5", 1, failed=False)
    found = await asyncio.wait_for(waiting, 1)
    assert ids(found) == ["5"]
    assert await logs.after(TARGET, found[0].number, 0.01) == []
    closing = asyncio.create_task(logs.after(TARGET, found[0].number, 30))
    await asyncio.sleep(0.01)
    logs.close()
    assert await asyncio.wait_for(closing, 1) == []


def test_it_waits_for_the_first() -> None:
    asyncio.run(_wait())


def test_numbers_of_a_later_server_are_larger() -> None:
    async def numbers() -> list[int]:
        logs = Completions()
        logs.note(f"{SAMPLER}:0", 1, failed=False)
        return [one.number for one in await logs.after(TARGET, 0, 0)]

    assert asyncio.run(numbers()) < asyncio.run(numbers())
