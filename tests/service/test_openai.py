"""OpenAI's official client on a real server: chat, tools, streams, names in service, and what is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import tinker
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from tests.service.conftest import Person, person
from tests.service.running import Restartable, Server, engine_asleep, wait_until
from tests.service.running import serving as serving_server
from tests.tiny import make_tiny_model

TALK: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say a word."}]


@pytest.fixture(scope="module")
def client(sdk_address: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{sdk_address}/v1", api_key="tml-ann", max_retries=0)


@pytest.fixture(scope="module")
def tokenizer(sdk_model: Path) -> PreTrainedTokenizerBase:
    made: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(sdk_model)
    return made


@pytest.fixture(scope="module")
def trained(ann: Person) -> list[str]:
    """Two sampler checkpoints of one run: it learns to write the letter a, then to write something else."""
    run = ann.train(rank=8)
    paths = []
    for letter in "ab":
        tokens = [*b"<|im_start|>assistant\n", *[ord(letter)] * 12]
        datum = tinker.Datum(
            model_input=tinker.ModelInput.from_ints([run.get_tokenizer().encode(chr(t))[0] for t in tokens[:-1]]),
            loss_fn_inputs={"target_tokens": np.array([run.get_tokenizer().encode(chr(t))[0] for t in tokens[1:]])},
        )
        for _ in range(12):
            run.forward_backward([datum], "cross_entropy")
            run.optim_step(tinker.AdamParams(learning_rate=3e-2)).result()
        paths.append(run.save_weights_for_sampler(letter).result().path)
    return paths


def serving(sdk_address: str, route: str, key: str = "tml-ann", **body: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    url = f"{sdk_address}/motet/v1/serving{route}"
    return (
        httpx.post(url, json=body, headers=headers, timeout=60) if body else httpx.get(url, headers=headers, timeout=60)
    )


def ask(client: openai.OpenAI, model: str, **more: Any) -> Any:
    return client.chat.completions.create(model=model, messages=TALK, **{"seed": 3, "max_tokens": 8, **more})


def test_an_answer_is_what_the_tinker_api_draws(
    client: openai.OpenAI, ann: Person, tokenizer: PreTrainedTokenizerBase
) -> None:
    told = ask(client, ann.model, logprobs=True, top_logprobs=2)
    prompt = tokenizer.apply_chat_template(TALK, add_generation_prompt=True)["input_ids"]
    sampler = ann.service.create_sampling_client(base_model=ann.model)
    params = tinker.SamplingParams(max_tokens=8, seed=3, stop=[tokenizer.eos_token_id])
    drawn = sampler.sample(tinker.ModelInput.from_ints(list(prompt)), 1, params).result().sequences[0]
    assert told.choices[0].message.content == tokenizer.decode(drawn.tokens, skip_special_tokens=True)
    content = told.choices[0].logprobs.content
    assert [one.logprob for one in content] == pytest.approx(drawn.logprobs)
    assert all(len(one.top_logprobs) == 2 for one in content)
    assert told.usage.prompt_tokens == len(prompt) and told.usage.completion_tokens == len(drawn.tokens)
    assert told.id.startswith("chatcmpl-") and told.model == ann.model


def test_a_stream_says_the_same_in_pieces(client: openai.OpenAI, ann: Person) -> None:
    whole = ask(client, ann.model, n=2, logprobs=True)
    pieces = list(ask(client, ann.model, n=2, logprobs=True, stream=True, stream_options={"include_usage": True}))
    for index in range(2):
        own = [one.choices[0] for one in pieces if len(one.choices) == 1 and one.choices[0].index == index]
        assert "".join(one.delta.content or "" for one in own) == whole.choices[index].message.content
        drawn = [token.logprob for one in own if one.logprobs for token in one.logprobs.content]
        assert drawn == [token.logprob for token in whole.choices[index].logprobs.content]
        assert own[-1].finish_reason == whole.choices[index].finish_reason
    assert pieces[-1].usage is not None and pieces[-1].usage.total_tokens == whole.usage.total_tokens
    assert len({one.id for one in pieces}) == 1 and pieces[0].choices[0].delta.role == "assistant"


def test_plain_completions(client: openai.OpenAI, ann: Person, tokenizer: PreTrainedTokenizerBase) -> None:
    asked: dict[str, Any] = {"model": ann.model, "prompt": "abc", "max_tokens": 6, "seed": 1}
    whole = client.completions.create(**asked)
    pieces = list(client.completions.create(**asked, stream=True))
    assert "".join(one.choices[0].text for one in pieces) == whole.choices[0].text
    tokens = client.completions.create(**{**asked, "prompt": tokenizer.encode("abc")}, logprobs=1)
    assert tokens.choices[0].text == whole.choices[0].text
    logprobs = tokens.choices[0].logprobs
    assert len(logprobs.token_logprobs) == tokens.usage.completion_tokens
    assert logprobs.text_offset == [len("".join(logprobs.tokens[:n])) for n in range(len(logprobs.tokens))]
    streamed = list(client.completions.create(**asked, logprobs=1, stream=True))
    offsets = [one.choices[0].logprobs.text_offset for one in streamed if one.choices[0].logprobs]
    assert [place for part in offsets for place in part] == logprobs.text_offset


def test_a_stop_string_ends_an_answer_and_is_not_in_it(client: openai.OpenAI, ann: Person) -> None:
    whole = ask(client, ann.model, max_tokens=40).choices[0].message.content
    place = next(place for place in range(2, len(whole) - 1) if whole[place : place + 2].isascii())
    stop = whole[place : place + 2]
    for stream in (False, True):
        told = ask(client, ann.model, max_tokens=40, stop=stop, stream=stream)
        text = (
            "".join(one.choices[0].delta.content or "" for one in told) if stream else told.choices[0].message.content
        )
        assert text == whole[: whole.find(stop)]


def test_names_in_service(client: openai.OpenAI, sdk_address: str, trained: list[str]) -> None:
    first = serving(sdk_address, "/support/versions", path=trained[0], about="from the first week").json()
    assert (first["serving"], first["candidate"]) == (1, None)
    second = serving(sdk_address, "/support/versions", path=trained[1]).json()
    assert (second["serving"], second["candidate"]) == (1, 2)

    def said(model: str, **more: Any) -> tuple[str, str]:
        told = ask(client, model, temperature=0, **more)
        return told.model, told.choices[0].message.content[:4]

    a, b = said("support@v1"), said("support@candidate")
    assert (a[0], b[0]) == ("support@v1", "support@v2") and a[1] == "aaaa" != b[1]
    assert said("support") == a and said(trained[1])[1] == b[1]
    serving(sdk_address, "/support/canary", share=0.5, reason="a look")
    by_user = {f"u{n}": said("support", user=f"u{n}") for n in range(24)}
    assert set(by_user.values()) == {a, b}
    assert {user: said("support", user=user) for user in by_user} == by_user  # sticky
    assert serving(sdk_address, "/support/promote", version=2, reason="better").json()["serving"] == 2
    assert said("support") == b
    assert serving(sdk_address, "/support/rollback", reason="worse").json()["serving"] == 1
    assert said("support") == a
    serving(sdk_address, "/support/pin", version=1, reason="the audit")
    refused = serving(sdk_address, "/support/promote", version=2, reason="again")
    assert refused.status_code == 400 and "unpin it first" in refused.json()["error"]
    history = serving(sdk_address, "/support").json()["history"]
    assert [one["event"] for one in history] == [
        "candidate", "promote", "candidate", "canary", "promote", "rollback", "pin",
    ]  # fmt: skip
    assert [one.id for one in client.models.list()][1:] == ["support"]
    assert client.models.retrieve("support").id == "support@v1"


def test_what_is_in_service_stays(ann: Person, sdk_address: str) -> None:
    run = ann.train()
    short = run.save_weights_for_sampler("short", ttl_seconds=3600).result().path
    refused = serving(sdk_address, "/held/versions", path=short)
    assert refused.status_code == 400 and "expires" in refused.json()["error"]
    path = run.save_weights_for_sampler("long").result().path
    assert serving(sdk_address, "/held/versions", path=path).status_code == 200
    with pytest.raises(tinker.APIError, match="in service as held@v1"):
        ann.rest.delete_checkpoint_from_tinker_path(path).result()
    with pytest.raises(tinker.APIError, match="in service as held@v1"):
        ann.rest.set_checkpoint_ttl_from_tinker_path(path, 3600).result()


def test_names_are_their_tenants_own(sdk_address: str, trained: list[str], client: openai.OpenAI) -> None:
    serving(sdk_address, "/private/versions", path=trained[0])
    bob = openai.OpenAI(base_url=f"{sdk_address}/v1", api_key="tml-bob", max_retries=0)
    with pytest.raises(openai.NotFoundError, match="there is no model 'private'"):
        ask(bob, "private")
    assert serving(sdk_address, "/private", key="tml-bob").status_code == 404
    assert serving(sdk_address, "/mine/versions", key="tml-bob", path=trained[0]).status_code == 404


TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}},
}


@pytest.mark.parametrize("stream", [False, True])
def test_tool_calls_come_as_calls(client: openai.OpenAI, ann: Person, stream: bool) -> None:
    """What the tiny model says is no call; the parsing itself is tested in tests/lab/test_chat.py."""
    told = ask(client, ann.model, tools=[TOOL], stream=stream)
    if stream:
        text = "".join(one.choices[0].delta.content or "" for one in told if one.choices)
    else:
        text, calls = told.choices[0].message.content, told.choices[0].message.tool_calls
        assert calls is None
    again, without = ask(client, ann.model, tools=[TOOL]), ask(client, ann.model)
    assert text == again.choices[0].message.content
    assert (
        again.usage.prompt_tokens > without.usage.prompt_tokens
    )  # its template shows no tools: they are told in words


@pytest.fixture(scope="module")
def caller_of_tools(client: openai.OpenAI, ann: Person, tokenizer: PreTrainedTokenizerBase, sdk_address: str) -> str:
    """A checkpoint that has learned to say a word and call a tool, from the prompt of a recorded answer."""
    asked = ask(client, ann.model, tools=[TOOL])
    client.post("/feedback", cast_to=object, body={"response_id": asked.id, "thumbs": "down"})  # its record is there
    headers = {"Authorization": "Bearer tml-ann"}
    record = httpx.get(f"{sdk_address}/motet/v1/answers/{asked.id}", headers=headers).json()
    call = '<tool_call>{"name": "look", "arguments": {"at": 3}}</tool_call>'
    said = [*tokenizer.encode(f"Wait. {call}"), tokenizer.eos_token_id]
    tokens = [*record["prompt_tokens"], *said]
    weights = np.array([0.0] * (len(tokens) - 1 - len(said)) + [1.0] * len(said), np.float32)
    datum = tinker.Datum(
        model_input=tinker.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={"target_tokens": np.array(tokens[1:]), "weights": weights},
    )
    run = ann.train(rank=32)
    for _ in range(40):
        run.forward_backward([datum], "cross_entropy")
        run.optim_step(tinker.AdamParams(learning_rate=1e-2)).result()
    return str(run.save_weights_for_sampler("calls").result().path)


def test_a_call_that_was_made_is_told_as_one(client: openai.OpenAI, caller_of_tools: str) -> None:
    asked: dict[str, Any] = {"model": caller_of_tools, "messages": TALK, "tools": [TOOL], "temperature": 0}
    choice = client.chat.completions.create(**asked, max_tokens=100).choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Wait.")
    (call,) = choice.message.tool_calls
    assert call.function.name == "look" and json.loads(call.function.arguments) == {"at": 3}
    pieces = [one.choices[0] for one in client.chat.completions.create(**asked, max_tokens=100, stream=True)]
    assert "".join(piece.delta.content or "" for piece in pieces) == "Wait."
    calls = [call for piece in pieces for call in piece.delta.tool_calls or []]
    assert [(call.index, call.function.name, call.function.arguments) for call in calls] == [
        (0, "look", choice.message.tool_calls[0].function.arguments)
    ]
    assert pieces[-1].finish_reason == "tool_calls"
    place = next(n for n, piece in enumerate(pieces) if piece.delta.tool_calls)
    assert sum(bool(piece.delta.content) for piece in pieces[:place]) > 1  # said as it came, not at the end
    history: list[Any] = [*TALK, choice.message.model_dump(exclude_none=True)]
    history.append({"role": "tool", "tool_call_id": call.id, "content": "nothing"})
    assert client.chat.completions.create(**{**asked, "messages": history}, max_tokens=2).usage.completion_tokens == 2


def test_an_answer_ends_on_the_version_that_it_began_with(
    client: openai.OpenAI, sdk_address: str, trained: list[str]
) -> None:
    serving(sdk_address, "/turned/versions", path=trained[0])
    serving(sdk_address, "/turned/versions", path=trained[1])
    whole = ask(client, "turned", max_tokens=60, temperature=0).choices[0].message.content
    stream = iter(ask(client, "turned", max_tokens=60, temperature=0, stream=True))
    pieces = [next(stream), next(stream)]
    serving(sdk_address, "/turned/promote", version=2)
    after = ask(client, "turned", max_tokens=60, temperature=0)
    pieces += list(stream)
    assert {piece.model for piece in pieces} == {"turned@v1"} and after.model == "turned@v2"
    assert (
        "".join(piece.choices[0].delta.content or "" for piece in pieces) == whole != after.choices[0].message.content
    )


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"model": "nobody"}, "there is no model 'nobody'"),
        ({"messages": []}, "messages"),
        ({"temperature": -1}, "temperature is -1"),
        ({"presence_penalty": 0.5}, "presence_penalty is not known here"),
        ({"response_format": {"type": "json_object"}}, "response_format: Extra inputs"),
        ({"n": 1000}, "n: Input should be less"),
        ({"model": "support@v99"}, "no version 99|there is no model"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}, "messages"),
        (
            {"messages": [*TALK, {"role": "system", "content": "Be kind."}]},
            "this conversation: the system speaks first",
        ),
    ],
)
def test_mistakes_come_in_openais_form(sdk_address: str, ann: Person, body: dict[str, Any], told: str) -> None:
    whole = {"model": ann.model, "messages": TALK, "max_tokens": 4, **body}
    headers = {"Authorization": "Bearer tml-ann"}
    for stream in (False, True):
        body = {**whole, "stream": stream}
        answer = httpx.post(f"{sdk_address}/v1/chat/completions", json=body, headers=headers, timeout=60)
        assert answer.status_code in (400, 404)
        error = answer.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert any(part in error["message"] for part in told.split("|")), error


@pytest.mark.parametrize(
    ("method", "route", "content", "status"),
    [
        ("GET", "/v1/nowhere", b"", 404),
        ("GET", "/v1/completions", b"", 405),
        ("POST", "/v1/completions", bytes(9_000_000), 413),
        ("GET", "/api/v1/nowhere", b"", 404),
        ("POST", "/api/v1/asample", bytes(9_000_000), 413),
    ],
)
def test_so_do_those_of_the_form_alone(sdk_address: str, method: str, route: str, content: bytes, status: int) -> None:
    headers = {"Authorization": "Bearer tml-ann", "Content-Type": "application/json"}
    answer = httpx.request(method, f"{sdk_address}{route}", content=content, headers=headers, timeout=60)
    assert answer.status_code == status
    if route.startswith("/v1"):
        assert answer.json()["error"]["type"] == "invalid_request_error" and answer.json()["error"]["message"]
    else:
        assert answer.json()["category"] == "user" and isinstance(answer.json()["error"], str)


@pytest.mark.parametrize(("size", "told"), [(7_500_000, "characters"), (6_000, "tokens")])
def test_a_long_text_keeps_nobody_waiting(sdk_address: str, ann: Person, size: int, told: str) -> None:
    """What no context could hold is refused unread; what it might hold is read beside everything else."""
    body = {"model": ann.model, "messages": [{"role": "user", "content": "a" * size}]}
    headers = {"Authorization": "Bearer tml-ann"}
    longest = 0.0
    with ThreadPoolExecutor(1) as pool, httpx.Client(base_url=sdk_address, timeout=60) as client:
        asked = pool.submit(httpx.post, f"{sdk_address}/v1/chat/completions", json=body, headers=headers, timeout=60)
        while not asked.done():
            began = time.monotonic()
            assert client.get("/api/v1/healthz").status_code == 200
            longest = max(longest, time.monotonic() - began)
    refused = asked.result()
    assert refused.status_code == 400 and told in refused.json()["error"]["message"]
    assert longest < 1.0


def test_without_a_key_nobody_is_answered(sdk_address: str) -> None:
    answer = httpx.get(f"{sdk_address}/v1/models")
    assert answer.status_code == 401 and "API key" in answer.json()["error"]["message"]


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    folder = tmp_path_factory.mktemp("mortal")
    server = Restartable(make_tiny_model(folder / "model", "qwen3"), folder, ("--dtype", "float32"))
    server.start()
    yield server
    server.stop()


def test_a_name_outlives_kill_9(mortal: Restartable) -> None:
    someone = person(mortal.address, "tml-one")
    path = someone.train().save_weights_for_sampler("first").result().path
    serving(mortal.address, "/kept/versions", key="tml-one", path=path)
    before = serving(mortal.address, "/kept", key="tml-one").json()
    asked = {"model": "kept", "messages": TALK, "max_tokens": 8, "seed": 1}

    def answered() -> str:
        headers = {"Authorization": "Bearer tml-one"}
        answer = httpx.post(f"{mortal.address}/v1/chat/completions", json=asked, headers=headers, timeout=60)
        assert answer.status_code == 200, answer.text
        return str(json.dumps(answer.json()["choices"]))

    said = answered()
    mortal.kill_both()
    mortal.start()
    assert serving(mortal.address, "/kept", key="tml-one").json() == before
    assert answered() == said


def test_a_client_that_hangs_up_frees_what_its_stream_held(sdk_address: str, ann: Person) -> None:
    def held() -> float:
        answer = httpx.get(f"{sdk_address}/motet/v1/stats", headers={"X-API-Key": "tml-ann"}, timeout=60)
        return float(answer.json()["engine"]["sequences"])

    body = {"model": ann.model, "messages": TALK, "stream": True, "n": 4, "temperature": 1.0, "seed": 5}
    headers = {"Authorization": "Bearer tml-ann"}
    with httpx.stream("POST", f"{sdk_address}/v1/chat/completions", json=body, headers=headers, timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("data: ")
    wait_until(lambda: held() == 0)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory, sdk_model: Path) -> Iterator[Server]:
    """A server on which a tenant may have 100 tokens on their way."""
    folder = tmp_path_factory.mktemp("narrow")
    settings = folder / "motet.toml"
    settings.write_text("[service.quotas]\nqueued_tokens = 100\n")
    with serving_server(sdk_model, folder, ("--config", str(settings))) as server:
        yield server


def complete(server: Server, tokens: int, timeout: float = 60, stream: bool = False) -> httpx.Response:
    """Ask the base model for so many tokens."""
    headers = {"Authorization": "Bearer tml-one"}
    model = httpx.get(f"{server.address}/v1/models", headers=headers, timeout=60).json()["data"][0]["id"]
    body = {"model": model, "prompt": "a", "max_tokens": tokens, "stream": stream}
    return httpx.post(f"{server.address}/v1/completions", json=body, headers=headers, timeout=timeout)


def test_a_full_queue_is_told_to_come_again(narrow: Server) -> None:
    assert complete(narrow, 400).status_code == 400  # never fits, whatever it waits for
    assert complete(narrow, 20).status_code == 200


def test_a_client_that_goes_before_its_stream_begins_leaves_nothing(narrow: Server) -> None:
    assert complete(narrow, 2, stream=True).status_code == 200
    with engine_asleep(narrow):
        for _ in range(2):
            with pytest.raises(httpx.ReadTimeout):
                complete(narrow, 40, timeout=1, stream=True)
        assert complete(narrow, 40).status_code == 429
    wait_until(lambda: complete(narrow, 40).status_code == 200)
