"""Bodies of any kind against a real server: never a 5xx, never a crash, and nobody else is disturbed.

The bodies are made from the wire's own schemas, a field at a time right, wrong or absurd; and from what the SDK sends,
with bytes changed, cut and repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, get_args

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from tinker.proto.response_conv import deserialize_forward_backward_output

from motet.engine.types import AdamW, Datum, LossName
from motet.service.wire import protobuf as pb
from motet.service.wire import schemas
from tests.service.client import PROTOBUF, Client, training
from tests.service.running import serving

ROUTES: dict[str, type[BaseModel]] = {
    "create_session": schemas.CreateSession,
    "session_heartbeat": schemas.SessionId,
    "create_model": schemas.CreateModel,
    "load_weights": schemas.LoadWeights,
    "get_info": schemas.ModelId,
    "optim_step": schemas.OptimStep,
    "save_weights": schemas.SaveWeights,
    "save_weights_for_sampler": schemas.SaveForSampler,
    "create_sampling_session": schemas.CreateSamplingSession,
    "asample": schemas.Sample,
    "retrieve_future": schemas.RequestId,
    "cancel_future": schemas.RequestId,
    "weights_info": schemas.WeightsPath,
}
FUZZ = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
ODD = st.sampled_from(
    [None, True, False, -1, 0, 1, 2, 7, 2**31, 2**63, -(2**70), 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf")]
)
TEXTS = st.sampled_from(
    ["", "x", "../..", "tinker://x/weights/y", "\x00", "é", "\ud800", "[" * 20, "a" * 500]
) | st.text(max_size=8)
ANYTHING = st.recursive(
    ODD | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)

# What a dictionary without a schema of its own may hold.
KEYS = {
    "adam_params": list(AdamW.__dataclass_fields__),
    "optimizer_params": ["type", "learning_rate"],
    "optimizer_config": ["type"],
    "user_metadata": ["motet.alpha", "motet.name"],
    "target_prompt_logprobs": ["data", "dtype", "shape", "sparse_crow_indices", "sparse_col_indices"],
}


class Target:
    """What the bodies are aimed at: a tenant's own things, so that they get past the door."""

    def __init__(self, address: str) -> None:
        self.client = Client(address, "tml-fuzz")
        self.run, self.numbered, self.sampler = self.client.run(), self.client.run(), self.client.sampler()
        self.next = 1  # number of the run that nothing else is sent to
        self.known = {"session_id": self.client.session, "model_id": self.run, "sampling_session_id": self.sampler}

    def check(self, answer: httpx.Response) -> None:
        """Not our fault, and nothing that makes the SDK come again; through its promise neither."""
        assert answer.status_code < 500 and answer.status_code not in (409, 429), answer.text
        assert answer.content, "an empty answer is taken for a fault of the network"
        told = answer.json()
        if answer.status_code == 200 and "request_id" in told and "sampling_session_id" not in told:
            self.settle(told)

    def train(self, body: bytes) -> None:
        """Send a protobuf under the next number, which a broken one does not use."""
        answer = self.client.http.post(
            "/api/v1/forward_backward", content=numbered(body, self.next), headers={"Content-Type": PROTOBUF}
        )
        self.check(answer)
        self.next += answer.json().get("request_id") == f"{self.numbered}:{self.next}"

    def settle(self, promise: dict[str, Any]) -> None:
        reply = self.client.send("retrieve_future", request_id=promise["request_id"])
        if reply.headers["content-type"] == "application/json" and reply.status_code == 200:
            assert reply.json().get("category") != "server", reply.text


@pytest.fixture(scope="module")
def address(sdk_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "motet.toml").write_text("[service]\npoll_seconds = 0.2\n")
    with serving(sdk_model, folder, ["--config", str(folder / "motet.toml")]) as server:
        yield server.address
        log = (folder / "server.log").read_text()
        assert "Traceback" not in log, log[-4000:]
        assert "ended with code" not in log, "the engine died"


@pytest.fixture(scope="module")
def target(address: str) -> Target:
    return Target(address)


@pytest.fixture(scope="module", autouse=True)
def neighbour(address: str) -> Iterator[None]:
    """Another tenant's run, whose results are the same after all of this as before."""
    client = Client(address, "tml-neighbour")
    run = client.run()
    before = learned(client, run, 1)
    yield
    assert learned(client, run, 2) == before
    assert client.http.get("/api/v1/healthz").status_code == 200


def learned(client: Client, run: str, number: int) -> list[float]:
    """The log-probabilities of one request."""
    answer = client.read(client.train(run, number).json()).content
    return [float(one) for one in deserialize_forward_backward_output(answer).loss_fn_outputs[0]["logprobs"].data]


def bodies(known: dict[str, str], schema: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    """A body for a schema: each field left out, right where that is known, of the schema's own kind, or anything."""
    fields = {}
    for name, field in schema.model_fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        right = [st.just(known[name])] * 4 if name in known else []
        right += [bodies(known, field.annotation)] * 2 if inner is not None and field.annotation is not None else []
        right += (
            [st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS[name], ODD | TEXTS))] * 4 if name in KEYS else []
        )
        fields[name] = st.one_of(*right, ODD, ANYTHING)
    return st.fixed_dictionaries({}, optional=fields)


@pytest.mark.parametrize("route", ROUTES)
@FUZZ
@given(data=st.data())
def test_json_of_any_kind(target: Target, route: str, data: st.DataObject) -> None:
    body = data.draw(bodies(target.known, ROUTES[route]) | ANYTHING)
    content = json.dumps(body).encode()
    answer = target.client.http.post(f"/api/v1/{route}", content=content, headers={"Content-Type": "application/json"})
    target.check(answer)


@FUZZ
@given(
    body=st.binary(max_size=200),
    route=st.sampled_from([*ROUTES, "forward_backward"]),
    kind=st.sampled_from(["application/json", PROTOBUF, "text/plain", "", "application/json; charset=utf-16"]),
)
def test_bytes_of_any_kind(target: Target, body: bytes, route: str, kind: str) -> None:
    answer = target.client.http.post(f"/api/v1/{route}", content=body, headers={"Content-Type": kind} if kind else {})
    target.check(answer)


Change = st.tuples(st.integers(0, 10_000), st.integers(0, 255))


@settings(FUZZ, max_examples=120)
@given(changes=st.lists(Change, max_size=6), cut=st.integers(0, 12), again=st.booleans())
def test_a_protobuf_with_bytes_changed(target: Target, changes: list[tuple[int, int]], cut: int, again: bool) -> None:
    """Whatever still parses and names the run is taken, and answered through its promise."""
    body = bytearray(training(target.numbered, 1))
    head = body.index(target.numbered.encode()) + len(target.numbered) + 2  # the run and the number stay
    for place, value in changes:
        body[head + place % (len(body) - head)] = value
    mutated = bytes(body[: len(body) - cut]) + (bytes(body[head:]) if again else b"")
    target.train(mutated)


INPUTS = ["target_tokens", *(name for name in Datum.__dataclass_fields__ if name not in ("tokens", "targets")), "other"]
NUMBERS = st.lists(st.sampled_from([-1, 0, 1, 2, 3, 7, 300, 2**31 - 1]), max_size=4).map(lambda n: np.array(n, "<i8"))
SHAPES = st.lists(st.sampled_from([-1, 0, 1, 2, 3, 2**40]), max_size=3) | st.just([1] * 70)
LOSSES = st.sampled_from([*get_args(LossName), "stable_reinforce", "custom", "", "none"])
RAW = st.binary(max_size=24) | NUMBERS.map(lambda n: n.astype("<i4").tobytes()) | NUMBERS.map(lambda n: n.tobytes())


@st.composite
def tensors(draw: st.DrawFn) -> Any:
    message = pb.Tensor(dtype=draw(st.integers(-1, 6)), shape=draw(SHAPES))
    if draw(st.booleans()):
        message.dense = draw(RAW)
    else:
        sparse = message.sparse_csr
        sparse.values, sparse.crow_indices, sparse.col_indices = draw(RAW), draw(RAW), draw(RAW)
    return message


@st.composite
def messages(draw: st.DrawFn) -> Any:
    """A request that parses, and hardly ever fits together."""
    message = pb.ForwardBackwardRequest(loss_fn=draw(LOSSES), forward_only=draw(st.booleans()))
    for key in draw(st.lists(st.sampled_from(["beta", "clip_low_threshold", "x"]), max_size=2)):
        message.loss_fn_config[key] = draw(st.floats())
    for _ in range(draw(st.integers(0, 2))):
        datum = message.data.add()
        for tokens in draw(st.lists(RAW, max_size=2)):
            datum.model_input.add().encoded_text.tokens = tokens
        for name in draw(st.lists(st.sampled_from(INPUTS), max_size=4, unique=True)):
            datum.loss_fn_inputs[name].CopyFrom(draw(tensors()))
    return message


@settings(FUZZ, max_examples=120)
@given(message=messages())
def test_a_protobuf_that_hardly_fits_together(target: Target, message: Any) -> None:
    message.model_id = target.numbered
    before = target.next
    target.train(message.SerializeToString())
    assert target.next == before + 1


def numbered(body: bytes, number: int) -> bytes:
    """The last value of a field counts: the number is put behind."""
    coded = bytearray([2 << 3])
    while number > 127:
        coded.append(number & 127 | 128)
        number >>= 7
    return body + bytes([*coded, number])


def test_what_was_found_once(target: Target) -> None:
    """Each of these was a fault of ours, or the end of the engine; the run goes on after all of them."""
    client = target.client
    run, number = client.run(), count(1)

    def sent(route: str, **body: Any) -> httpx.Response:
        headers = {"Content-Type": "application/json"}
        return client.http.post(f"/api/v1/{route}", content=json.dumps(body).encode(), headers=headers)

    for rate in (10**400, 2**63):
        answer = sent("optim_step", model_id=run, seq_id=next(number), adam_params={"learning_rate": rate})
        assert answer.status_code == 400 and "64 bits" in answer.json()["error"]
    assert (
        sent("save_weights", model_id=run, seq_id=next(number), path="x", user_metadata={"a": "\ud800"}).status_code
        == 400
    )
    assert sent("create_session", user_metadata={"a": "\0"}).status_code == 400
    message = pb.ForwardBackwardRequest(model_id=run, seq_id=next(number), loss_fn="cross_entropy")
    message.data.add().loss_fn_inputs["target_tokens"].CopyFrom(pb.Tensor(dtype=3, shape=[1] * 70, dense=bytes(4)))
    content = message.SerializeToString()
    answer = client.http.post("/api/v1/forward_backward", content=content, headers={"Content-Type": PROTOBUF})
    assert "dimensions" in client.read(answer.json()).json()["error"]
    for _ in range(2):
        saved = sent("save_weights_for_sampler", model_id=run, seq_id=next(number), sampling_session_seq_id=77)
        told = client.read(saved.json()).json()
    assert "taken" in told["error"] and told["category"] == "user"
    sampler = client.sampler(100)
    odd = [{"top_k": 2**62}, {"seed": 2**62}, {"seed": -(2**63)}, {"max_tokens": 2**62}, {"temperature": 1e308}]
    for seq_id, params in enumerate(odd):
        prompt = {"chunks": [{"tokens": [5, 6]}]}
        body = {"sampling_session_id": sampler, "seq_id": seq_id, "prompt": prompt}
        drawn = client.read(sent("asample", **body, sampling_params={"max_tokens": 2, **params}).json())
        assert drawn.headers["content-type"] == PROTOBUF or drawn.json()["category"] == "user", drawn.text
    assert client.http.get("/api/v1/training_runs?limit=-5&offset=99999999999999999999").status_code == 200
    assert client.read(client.train(run, next(number)).json()).headers["content-type"] == PROTOBUF


def test_the_run_can_still_learn(target: Target) -> None:
    run = target.client.run()
    assert target.client.read(target.client.train(run, 1).json()).headers["content-type"] == PROTOBUF
