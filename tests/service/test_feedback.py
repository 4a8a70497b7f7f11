"""Records of answers, feedback, trainings and deletion on a real server, over HTTP as clients have it."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from typer.testing import CliRunner

from motet.cli import app
from motet.client.connection import Connection
from motet.client.feedback import Feedback
from motet.client.names import Names
from motet.client.records import Records
from tests.service.conftest import Person, person
from tests.service.running import Restartable, wait_until
from tests.tiny import make_tiny_model

TALK: list[Any] = [{"role": "user", "content": "Say a word."}]


@dataclass(frozen=True)
class Caller:
    """One key's view of the closed loop's routes."""

    address: str
    key: str

    def send(self, method: str, route: str, body: Any = None, **query: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.request(method, f"{self.address}{route}", json=body, params=query, headers=headers, timeout=60)

    def get(self, route: str, **query: Any) -> Any:
        return told(self.send("GET", f"/motet/v1{route}", **query))

    def post(self, route: str, **body: Any) -> Any:
        return told(self.send("POST", f"/motet/v1{route}", body))

    def ask(self, model: str, **more: Any) -> Any:
        body = {"model": model, "messages": TALK, "max_tokens": 6, "seed": 3, **more}
        return told(self.send("POST", "/v1/chat/completions", body))

    def say(self, **body: Any) -> httpx.Response:
        return self.send("POST", "/v1/feedback", body)


def told(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def cleo(sdk_address: str) -> Person:
    """A tenant of its own: nobody else's records."""
    return person(sdk_address, "tml-cleo")


@pytest.fixture(scope="module")
def caller(sdk_address: str, cleo: Person) -> Caller:
    return Caller(sdk_address, "tml-cleo")


@pytest.fixture(scope="module")
def paths(cleo: Person, caller: Caller) -> list[str]:
    """Three checkpoints; the first serves as `helper`."""
    run = cleo.train(rank=2)
    made = [run.save_weights_for_sampler(name).result().path for name in ("one", "two", "three")]
    caller.post("/serving/helper/versions", path=made[0], about="the first")
    return made


def test_an_answer_is_on_record_with_its_tokens(caller: Caller, cleo: Person, paths: list[str]) -> None:
    answer = caller.ask("helper", user="u-1", metadata={"motet.conversation": "c-1"}, logprobs=True, n=2)
    wait_until(lambda: caller.send("GET", f"/motet/v1/answers/{answer['id']}").status_code == 200)
    record = caller.get(f"/answers/{answer['id']}")
    assert (record["name"], record["version"], record["model"]) == ("helper", 1, "helper@v1")
    assert (record["user"], record["conversation"], record["path"]) == ("u-1", "c-1", paths[0])
    assert record["request"]["messages"] == TALK and record["request"]["max_tokens"] == 6
    assert len(record["prompt_tokens"]) == answer["usage"]["prompt_tokens"]
    for choice, kept in zip(answer["choices"], record["choices"], strict=True):
        assert kept["text"] == choice["message"]["content"]
        assert kept["logprobs"] == [one["logprob"] for one in choice["logprobs"]["content"]]
        assert len(kept["tokens"]) == len(kept["logprobs"]) and kept["finish_reason"] == choice["finish_reason"]


def test_a_stream_is_on_record_as_a_whole_answer(sdk_address: str, caller: Caller, paths: list[str]) -> None:
    client = openai.OpenAI(base_url=f"{sdk_address}/v1", api_key="tml-cleo", max_retries=0)
    pieces = list(client.chat.completions.create(model="helper", messages=TALK, max_tokens=6, seed=3, stream=True))
    said = "".join(piece.choices[0].delta.content or "" for piece in pieces)
    caller.say(response_id=pieces[0].id, thumbs="up")
    record = caller.get(f"/answers/{pieces[0].id}")
    assert record["choices"][0]["text"] == said and len(record["choices"][0]["tokens"]) > 0
    assert 0 < record["first_token_seconds"] <= record["seconds"]


def test_what_shall_not_be_stored_is_not(caller: Caller, sdk_address: str, paths: list[str]) -> None:
    answer = caller.ask("helper", store=False)
    after = caller.ask("helper")
    assert told(caller.say(response_id=after["id"], thumbs="up"))["number"] > 0
    refused = caller.say(response_id=answer["id"], thumbs="up")
    assert refused.status_code == 404 and "not stored" in refused.json()["error"]["message"]
    silent = Caller(sdk_address, "tml-silent")
    assert told(silent.send("PUT", "/motet/v1/recording", {"store": False}))["store"] is False
    base = silent.send("GET", "/v1/models").json()["data"][0]["id"]
    silent.ask(base)
    assert told(silent.send("PUT", "/motet/v1/recording", {"store": True}))["store"] is True
    kept = silent.ask(base)
    told(silent.say(response_id=kept["id"], score=1))
    assert [one["id"] for one in silent.get("/answers")["answers"]] == [kept["id"]]


def test_feedback_counts_once_and_is_read_in_order(caller: Caller, paths: list[str]) -> None:
    answers = [caller.ask("helper", user="u-2", seed=seed) for seed in range(3)]
    start = caller.get("/feedback", limit=1000)["next"]
    body = {"id": "mine-1", "response_id": answers[0]["id"], "thumbs": "down", "correction": "Yes."}
    with ThreadPoolExecutor(6) as pool:
        sent = [told(one) for one in pool.map(lambda _: caller.say(**body), range(6))]
    assert sum(not one["duplicate"] for one in sent) == 1 and len({one["number"] for one in sent}) == 1
    other = caller.say(**{**body, "thumbs": "up"})
    assert other.status_code == 400 and "other feedback" in other.json()["error"]["message"]
    told(caller.say(response_id=answers[1]["id"], preferred={"response_id": answers[2]["id"]}, source="a boss"))
    told(caller.say(response_id=answers[1]["id"], outcome={"score": 0.5, "about": "solved"}, event="accepted"))
    items, after = [], start
    while page := caller.get("/feedback", after=after, limit=1, answers=True)["items"]:
        items += page
        after = page[-1]["number"]
    assert [one["response_id"] for one in items] == [answers[0]["id"], answers[1]["id"], answers[1]["id"]]
    assert items[0]["thumbs"] == "down" and items[0]["correction"] == "Yes." and items[0]["source"] == "u-2"
    assert items[1]["preferred"] == {"response_id": answers[2]["id"]} and items[1]["source"] == "a boss"
    assert items[2]["outcome"] == {"score": 0.5, "about": "solved"} and items[2]["event"] == "accepted"
    assert items[0]["answer"]["choices"][0]["text"] == answers[0]["choices"][0]["message"]["content"]
    assert all(one["name"] == "helper" and one["version"] == 1 for one in items)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"response_id": "chatcmpl-nobody", "thumbs": "up"}, "no record"),
        ({"thumbs": "up"}, "name the answer"),
        ({"response_id": "it"}, "say something"),
        ({"response_id": "it", "choice": 3, "score": 1}, "no choice 3"),
        ({"response_id": "it", "score": 1e9}, "less than or equal to 1000"),
        ({"response_id": "it", "thumbs": "sideways"}, "thumbs"),
        ({"response_id": "it", "preferred": {}}, "give a text, or a choice"),
        ({"response_id": "it", "preferred": {"choice": 0}}, "name the better one"),
        ({"past": {"model": "helper", "messages": TALK * 2}, "score": 1}, "must be the assistant's"),
    ],
)
def test_mistaken_feedback_is_told(caller: Caller, paths: list[str], body: dict[str, Any], said: str) -> None:
    if body.get("response_id") == "it":
        body = {**body, "response_id": caller.ask("helper")["id"]}
    refused = caller.say(**body)
    assert refused.status_code in (400, 404) and said in refused.json()["error"]["message"], refused.text


def test_other_tenants_see_nothing(caller: Caller, sdk_address: str, paths: list[str]) -> None:
    answer = caller.ask("helper")
    item = told(caller.say(response_id=answer["id"], thumbs="up"))
    training = caller.post("/trainings", key="private", name="helper", items=[item["number"]])
    mallory = Caller(sdk_address, "tml-mallory")
    assert mallory.say(response_id=answer["id"], thumbs="down").status_code == 404
    assert mallory.get("/feedback")["items"] == [] and mallory.get("/answers")["answers"] == []
    assert (
        mallory.send(
            "POST", "/motet/v1/trainings", {"key": "k", "name": "helper", "items": [item["number"]]}
        ).status_code
        == 400
    )
    assert mallory.send("GET", f"/motet/v1/trainings/{training['training']}").status_code == 404
    assert told(mallory.send("DELETE", "/motet/v1/people/u-1"))["answers"] == 0


def items_for(caller: Caller, user: str, count: int) -> list[int]:
    """So many items, each by a user of its own answer."""
    answers = [caller.ask("helper", user=user, max_tokens=1, seed=seed) for seed in range(count)]
    return [told(caller.say(response_id=one["id"], thumbs="up"))["number"] for one in answers]


def test_an_item_is_learned_from_once(caller: Caller, paths: list[str]) -> None:
    items = items_for(caller, "u-3", 4)
    plans = [{"key": f"race-{n}", "name": "helper", "items": items[:3], "recipe": {"n": n}} for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda plan: caller.send("POST", "/motet/v1/trainings", plan), plans))
    assert sorted(one.status_code for one in got) == [200, 400, 400, 400]
    won = next(one.json() for one in got if one.status_code == 200)
    again = caller.post("/trainings", **plans[won["recipe"]["n"]])
    assert again == won and won["state"] == "open" and won["items"] == items[:3]
    free = [one["number"] for one in caller.get("/feedback", free=True, limit=1000)["items"]]
    assert items[3] in free and not set(items[:3]) & set(free)
    given_up = caller.post(f"/trainings/{won['training']}/close", path=None, reason="the gate said no")
    assert given_up["state"] == "abandoned"
    second = caller.post(
        "/trainings", key="second", name="helper", parent=paths[0], items=items[:2], held_out=items[2:3]
    )
    brought = caller.post("/serving/helper/versions", path=paths[1], about="learned", training=second["training"])
    assert caller.post("/serving/helper/versions", path=paths[1], training=second["training"]) == brought
    number = brought["versions"][-1]["version"]
    done = caller.get(f"/trainings/{second['training']}")
    assert (done["state"], done["path"], done["version"]) == ("done", paths[1], number)
    taken = caller.send("POST", "/motet/v1/trainings", {"key": "third", "name": "helper", "items": items[:1]})
    assert taken.status_code == 400 and "name them as replayed" in taken.json()["error"]
    third = caller.post("/trainings", key="third", name="helper", items=items[3:], replayed=items[:2], parent=paths[1])
    assert third["counts"] == {"item": 1, "replayed": 2, "held_out": 0, "forgotten": 0}
    caller.post(f"/trainings/{third['training']}/close", path=paths[2])


def test_a_person_is_forgotten_and_the_versions_that_learned_are_named(caller: Caller, paths: list[str]) -> None:
    """u-3 and u-4 both taught a chain of two versions; when u-4 goes, what u-3 said is left to rebuild from."""
    stays, goes = items_for(caller, "u-3", 2), items_for(caller, "u/4", 2)
    told(caller.say(response_id=caller.ask("helper", user="u-3")["id"], score=1, source="u/4"))
    run = person(caller.address, caller.key).train(rank=2)
    made = [run.save_weights_for_sampler(name).result().path for name in ("first", "next")]
    chain = [
        caller.post("/trainings", key="chain-1", name="helper", parent=paths[0], items=[stays[0], *goes]),
        caller.post("/trainings", key="chain-2", name="helper", parent=made[0], items=stays[1:]),
    ]
    for training, path in zip(chain, made, strict=True):
        caller.post("/serving/helper/versions", path=path, training=training["training"])
    gone = told(caller.send("DELETE", "/motet/v1/people/u/4"))
    assert (gone["user"], gone["answers"], gone["feedback"]) == ("u/4", 2, 3)
    assert [(one["path"], one["items"]) for one in gone["versions"]] == [(made[0], 2), (made[1], 0)]
    assert gone["rebuild"] == [{"name": "helper", "from": paths[0], "items": stays}]
    again = told(caller.send("DELETE", "/motet/v1/people/u/4"))
    assert again == {**gone, "answers": 0, "feedback": 0}
    assert caller.get("/answers", user="u/4")["answers"] == []
    left = caller.get("/feedback", limit=1000)["items"]
    assert not set(goes) & {one["number"] for one in left} and all(one["source"] != "u/4" for one in left)
    assert caller.get(f"/trainings/{chain[0]['training']}")["counts"]["forgotten"] == 2
    rebuilt = caller.post(
        "/trainings", key="rebuilt", name="helper", parent=paths[0], replayed=gone["rebuild"][0]["items"]
    )
    assert rebuilt["replayed"] == stays


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    folder = tmp_path_factory.mktemp("mortal-feedback")
    settings = folder / "motet.toml"
    settings.write_text('[service.records]\nredact = ["[0-9]{4,}"]\nfeedback_per_minute = 3\n')
    flags = ("--dtype", "float32", "--config", str(settings))
    server = Restartable(make_tiny_model(folder / "model", "qwen3"), folder, flags)
    server.start()
    yield server
    server.stop()


def test_what_was_acknowledged_outlives_kill_9(mortal: Restartable) -> None:
    someone, caller = person(mortal.address, "tml-one"), Caller(mortal.address, "tml-one")
    run = someone.train(rank=2)
    first, second = (run.save_weights_for_sampler(name).result().path for name in ("a", "b"))
    caller.post("/serving/kept/versions", path=first)
    answer = caller.ask("kept", user="u-1")
    given = told(caller.say(id="f-1", response_id=answer["id"], thumbs="down", comment="call 555123 or 12"))
    training = caller.post("/trainings", key="t-1", name="kept", parent=first, items=[given["number"]])
    caller.post("/trainings", key="t-2", name="kept", parent=first)
    done = caller.get("/trainings", name="kept", state="open")["trainings"][1]
    caller.post("/serving/kept/versions", path=second, training=done["training"])
    caller.post("/serving/kept/promote", version=2, reason="better", by="the loop")
    mortal.kill_both()
    mortal.start()
    assert told(caller.say(id="f-1", response_id=answer["id"], thumbs="down", comment="call 555123 or 12"))["duplicate"]
    (item,) = caller.get("/feedback", answers=True)["items"]
    assert item["comment"] == "call [redacted] or 12" and item["training"] == training["training"]
    assert item["answer"]["choices"][0]["text"] == answer["choices"][0]["message"]["content"]
    assert caller.post("/trainings", key="t-1", name="kept", parent=first, items=[given["number"]]) == training
    name = caller.get("/serving/kept")
    assert name["serving"] == 2 and name["history"][-1]["by"] == "the loop"
    assert caller.get(f"/trainings/{done['training']}")["version"] == 2
    assert told(caller.say(id="f-2", response_id=answer["id"], score=1))["number"] > given["number"]


def test_what_a_pattern_matches_is_blacked_out_with_its_tokens(mortal: Restartable) -> None:
    caller = Caller(mortal.address, "tml-two")
    base = caller.send("GET", "/v1/models").json()["data"][0]["id"]
    answer = caller.ask(base, messages=[{"role": "user", "content": "My number is 123456."}])
    told(caller.say(response_id=answer["id"], correction="Not 98765."))
    (item,) = caller.get("/feedback", answers=True)["items"]
    assert item["correction"] == "Not [redacted]." and item["answer"]["redacted"] is True
    assert item["answer"]["request"]["messages"][0]["content"] == "My number is [redacted]."
    assert item["answer"]["prompt_tokens"] == [] == item["answer"]["choices"][0]["tokens"]
    told(caller.send("DELETE", "/motet/v1/people/somebody@example.org"))
    wait_until(lambda: "/motet/v1/people/{user" in mortal.log.read_text())  # its line comes after the answer
    assert "somebody@" not in mortal.log.read_text()
    assert b"123456" not in b"".join(file.read_bytes() for file in mortal.log.parent.joinpath("data").glob("catalog*"))


def test_past_conversations_are_feedback_too(caller: Caller, tmp_path: Path, paths: list[str]) -> None:
    past = {"model": "helper", "messages": [*TALK, {"role": "assistant", "content": "A word."}], "user": "u-9"}
    first = told(caller.say(id="past-1", past=past, thumbs="up"))
    assert told(caller.say(id="past-1", past=past, thumbs="up")) == {**first, "duplicate": True}
    record = caller.get(f"/answers/{first['response_id']}")
    assert record["kind"] == "past" and record["name"] == "helper" and record["version"] is None
    assert record["request"]["messages"] == TALK and record["choices"][0]["text"] == "A word."


def test_too_much_from_one_source_waits_in_quarantine(mortal: Restartable) -> None:
    caller = Caller(mortal.address, "tml-three")
    run = person(mortal.address, "tml-three").train(rank=2)
    caller.post("/serving/flooded/versions", path=run.save_weights_for_sampler("a").result().path)
    answer = caller.ask("flooded", max_tokens=1)
    given = [told(caller.say(response_id=answer["id"], score=n, source="a flood")) for n in range(4)]
    assert [one["quarantine"] is None for one in given] == [True] * 3 + [False]
    bad, good = given[-1]["number"], given[0]["number"]
    claim = caller.send("POST", "/motet/v1/trainings", {"key": "flood", "name": "flooded", "items": [bad, good]})
    assert claim.status_code == 400 and f"[{bad}] are in quarantine" in claim.json()["error"]
    caller.post("/feedback/quarantine", items=[bad], reason=None)
    caller.post("/feedback/quarantine", items=[good], reason="against all others")
    (kept,) = caller.get("/feedback", quarantined=True)["items"]
    assert (kept["number"], kept["quarantine"]) == (good, "against all others")
    assert len(caller.get("/feedback", quarantined=False)["items"]) == 3


def command(caller: Caller, *words: str) -> str:
    """What a command prints; it must succeed."""
    done = CliRunner().invoke(app, [*words, "--base-url", caller.address, "--api-key", caller.key])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_file_of_past_conversations_is_imported_once(caller: Caller, tmp_path: Path, paths: list[str]) -> None:
    file = tmp_path / "past.jsonl"
    talk = [*TALK, {"role": "assistant", "content": "A word."}]
    lines = [
        {"past": {"messages": talk, "user": "u-10"}, "thumbs": "down", "correction": f"Word {n}."} for n in range(3)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert command(caller, "feedback", "import", str(file), "--name", "helper").startswith("3 lines: 3 new")
    assert "0 new, 3 known before" in command(caller, "feedback", "import", str(file), "--name", "helper")
    listed = [json.loads(line) for line in command(caller, "feedback", "list", "--answers").splitlines()]
    mine = [one for one in listed if one["source"] == "u-10"]
    assert [one["correction"] for one in mine] == ["Word 0.", "Word 1.", "Word 2."]
    assert all(one["answer"]["kind"] == "past" and one["name"] == "helper" for one in mine)
    assert json.loads(command(caller, "feedback", "forget", "u-10"))["feedback"] == 3
    file.write_text('{"thumbs": "up"}\n')
    refused = CliRunner().invoke(app, ["feedback", "import", str(file), "--base-url", caller.address])
    assert refused.exit_code == 1 and "line 1: " in refused.output and "name the answer" in refused.output


def test_names_by_the_command_line(caller: Caller, cleo: Person) -> None:
    run = cleo.train(rank=2)
    first, second = (run.save_weights_for_sampler(name).result().path for name in ("x", "y"))
    assert command(caller, "serving", "bring", "desk", first) == "desk  serves v1\n"
    answer = caller.ask("desk")
    Feedback(Connection(caller.address, caller.key)).give(answer["id"], thumbs="down", score=0.25)
    training = Records(Connection(caller.address, caller.key)).claim("d", "desk", first, [], recipe={"rate": 2})
    names = Names(Connection(caller.address, caller.key))
    names.bring("desk", second, training=training["training"])
    assert "candidate v2 with 20% of the traffic" in command(caller, "serving", "canary", "desk", "0.2")
    assert command(caller, "serving", "promote", "desk", "2", "--reason", "better") == "desk  serves v2\n"
    assert command(caller, "serving", "promote", "desk", "2") == "desk  serves v2\n"  # again is nothing
    between = json.loads(command(caller, "serving", "diff", "desk", "1", "2"))
    assert between["trainings"] == [training["training"]] and between["recipe"] == {"rate": [None, 2]}
    assert between["before"]["feedback"]["down"] == 1 and between["before"]["feedback"]["mean_score"] == 0.25
    assert between["after"]["feedback"]["items"] == 0 and between["after"]["path"] == second
    assert command(caller, "serving", "rollback", "desk") == "desk  serves v1\n"
    assert "pinned" in command(caller, "serving", "pin", "desk", "1") and "desk" in command(caller, "serving", "list")
    told_ = command(caller, "serving", "history", "desk")
    assert "better" in told_ and getpass.getuser() in told_
    assert [one["event"] for one in names.show("desk")["history"]].count("promote") == 2


def test_a_client_waits_for_a_server_that_was_killed(mortal: Restartable) -> None:
    """Feedback that is sent while the server is away arrives, once."""
    caller = Caller(mortal.address, "tml-four")
    base = caller.send("GET", "/v1/models").json()["data"][0]["id"]
    answer = caller.ask(base)
    told(caller.say(response_id=answer["id"], score=1))  # its record is on the disk
    feedback = Feedback(Connection(mortal.address, "tml-four"))
    mortal.kill_both()
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(feedback.give, answer["id"], thumbs="up")
        mortal.start()
        assert sent.result(60)["duplicate"] is False
    assert len(caller.get("/feedback")["items"]) == 2
