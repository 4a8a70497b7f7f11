"""A real server on a small model, seen over plain HTTP: what the SDK would never send included."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard
from tinker.proto.response_conv import deserialize_forward_backward_output, deserialize_sample_response

from tests.service.client import PROTOBUF, Client
from tests.service.running import serving, wait_until
from tests.tiny import make_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    return make_tiny_model(folder, "qwen3")


@pytest.fixture(scope="module")
def address(model: Path, folder: Path) -> Iterator[str]:
    with serving(model, folder) as server:
        yield server.address


@pytest.fixture
def client(address: str) -> Client:
    return Client(address, "tml-one")


@pytest.fixture
def other(address: str) -> Client:
    return Client(address, "tml-two")


def test_a_key_is_asked_for(address: str) -> None:
    answer = httpx.post(f"{address}/api/v1/create_session", json={})
    assert answer.status_code == 401 and "X-API-Key" in answer.json()["error"]
    assert httpx.get(f"{address}/api/v1/healthz").json() == {"status": "ok"}


def test_what_is_anothers_does_not_exist(client: Client, other: Client) -> None:
    run, sampler = client.run(), client.sampler()
    promise = client.train(run, 1).json()
    assert other.send("get_info", model_id=run).status_code == 404
    assert other.train(run, 2).status_code == 404
    assert other.send("optim_step", model_id=run, seq_id=2, adam_params={}).status_code == 404
    assert other.send("retrieve_future", request_id=promise["request_id"]).status_code == 410
    assert other.http.get(f"/api/v1/samplers/{sampler}").status_code == 404
    assert other.http.get(f"/api/v1/sessions/{client.session}").status_code == 404
    assert other.send("session_heartbeat", session_id=client.session).status_code == 404
    assert other.http.get("/api/v1/training_runs").json()["training_runs"] == []
    assert other.http.get("/motet/v1/versions", params={"run": run}).status_code == 404
    assert client.read(promise).status_code == 200


def test_requests_that_arrive_out_of_order_run_in_order(client: Client) -> None:
    """A step between two forward passes changes the second: it does so whatever the order of arrival."""
    straight, mixed = client.run(), client.run()
    found = {}
    for run, order in ((straight, (1, 2, 3)), (mixed, (3, 2, 1))):
        promises = {}
        for number in order:
            if number == 2:
                step = client.send("optim_step", model_id=run, seq_id=2, adam_params={"learning_rate": 0.1})
                promises[number] = step.json()
            else:
                promises[number] = client.train(run, number).json()
        found[run] = [client.read(promises[number]).content for number in (1, 3)]
        assert promises[1]["request_id"] == client.train(run, 1).json()["request_id"]  # sent again
    for a, b in zip(found[straight], found[mixed], strict=True):
        first, second = (deserialize_forward_backward_output(body) for body in (a, b))
        assert first.metrics["loss:sum"] == second.metrics["loss:sum"]
    losses = [deserialize_forward_backward_output(body).metrics["loss:sum"] for body in found[straight]]
    assert losses[1] != losses[0]


def test_results_are_read_twice_and_bodies_may_be_packed(client: Client) -> None:
    run = client.run()
    promise = client.train(run, 1, content_encoding="zstd").json()
    first, second = client.read(promise), client.read(promise)
    assert first.headers["content-type"] == PROTOBUF
    assert first.content == second.content


def test_a_bad_request_fails_alone_and_uses_its_number(client: Client) -> None:
    run = client.run()
    for number, bad in enumerate(({"learning_rate": None}, {"nonsense": 1.0}, {"eps": -1.0}), start=1):
        promise = client.post("optim_step", model_id=run, seq_id=number, adam_params=bad)
        failed = client.read(promise)
        assert failed.status_code == 200 and failed.json()["category"] == "user", failed.text
    assert client.read(client.train(run, 4, [5, 10**6, 7]).json()).json()["category"] == "user"
    assert client.send("save_weights", model_id=run, seq_id=5, path={"no": "name"}).status_code == 422
    assert client.read(client.train(run, 6).json()).headers["content-type"] == PROTOBUF


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"base_model": "gpt-5"}, "not served here"),
        ({"lora_config": {"rank": 0}}, "rank 0"),
        ({"lora_config": None}, "lora_config"),
        ({"optimizer_config": {"type": "dimuon"}}, "adamw"),
        ({"user_metadata": {"motet.alpha": "much"}}, "motet.alpha"),
        ({"user_metadata": {"motet.priority": "high"}}, "motet.priority"),
        ({"lora_config": {"rank": 2, "train_attn": False, "train_mlp": False, "train_unembed": False}}, "nothing"),
    ],
)
def test_a_run_that_cannot_be_is_refused(client: Client, changes: dict[str, Any], told: str) -> None:
    promise = client.create(**changes)
    failed = client.read(promise).json()
    assert failed["category"] == "user" and told in failed["error"]
    assert client.send("get_info", model_id=promise["model_id"]).status_code == 404


def test_alpha_of_the_metadata_counts(client: Client) -> None:
    """With the same step, twice the alpha moves the output further."""
    losses = []
    for alpha in ("0.001", "32", "64"):
        run = client.run(user_metadata={"motet.alpha": alpha})
        client.train(run, 1)
        client.post("optim_step", model_id=run, seq_id=2, adam_params={"learning_rate": 1e-3})
        output = deserialize_forward_backward_output(client.read(client.train(run, 3).json()).content)
        losses.append(output.metrics["loss:sum"])
    assert losses[0] > losses[1] > losses[2]


@pytest.mark.parametrize(
    ("route", "body", "headers", "status"),
    [
        ("forward_backward", b"not a protobuf", {}, 400),
        ("forward_backward", b"not zstd", {"Content-Encoding": "zstd"}, 400),
        ("forward_backward", b"x", {"Content-Encoding": "br"}, 415),
        ("forward_backward", zstandard.compress(bytes(80 * 1024**2)), {"Content-Encoding": "zstd"}, 413),
        ("create_session", bytes(65 * 1024**2), {}, 413),
        ("create_session", b"{", {}, 422),
        ("create_session", b'{"tags": 3}', {}, 422),
        ("create_session", b'{"user_metadata": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", {}, 400),
        ("get_info", b"{}", {}, 422),
        ("optim_step", b'{"model_id": "nope", "seq_id": -1}', {}, 422),
    ],
)
def test_bodies_of_any_kind_are_answered(
    client: Client, route: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    answer = client.http.post(f"/api/v1/{route}", content=body, headers={"Content-Type": "application/json", **headers})
    assert answer.status_code == status, answer.text
    assert answer.json()
    assert client.http.get("/api/v1/healthz").status_code == 200


def sample(client: Client, sampler: str, number: int, **changes: Any) -> dict[str, Any]:
    body = {
        "sampling_session_id": sampler,
        "seq_id": number,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7]}]},
        "sampling_params": {"max_tokens": 4, "seed": 3, "stop": []},
        **changes,
    }
    return client.post("asample", **body)


def test_sampling_and_its_errors(client: Client) -> None:
    sampler = client.sampler()
    promise = sample(client, sampler, 0, num_samples=2)
    assert len(promise["sample_sequence_ids"]) == 2
    assert sample(client, sampler, 0, num_samples=2) == promise
    answer = deserialize_sample_response(client.read(promise).content)
    assert [len(sequence.tokens) for sequence in answer.sequences] == [4, 4]
    failed = client.read(sample(client, sampler, 1, prompt_alt_tokens_k=-2)).json()
    assert failed["category"] == "user" and "prompt_alt_tokens_k" in failed["error"]
    assert client.send("asample", sampling_session_id=sampler, seq_id=2).status_code == 422
    assert client.send("asample", sampling_session_id="nope", seq_id=2).status_code == 422


def test_a_sample_is_taken_back(client: Client) -> None:
    sampler = client.sampler()
    promise = sample(client, sampler, 0, sampling_params={"max_tokens": 500, "stop": []}, num_samples=64)
    assert client.send("cancel_future", request_id=promise["request_id"]).status_code == 200
    failed = client.read(promise).json()
    assert failed["category"] == "user" and "cancelled" in failed["error"]
    assert client.send("cancel_future", request_id="nope").status_code == 200


def stats(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.http.get("/motet/v1/stats").json()
    return found


def test_inflight_samplers_follow_and_goodbye_frees(client: Client) -> None:
    before = stats(client)["engine"]
    run = client.run(user_metadata={"motet.name": "fast one"})
    made = []
    for number in range(2):
        client.train(run, 3 * number + 1)
        client.post("optim_step", model_id=run, seq_id=3 * number + 2, adam_params={"learning_rate": 0.1})
        published = client.post(
            "save_weights_for_sampler",
            model_id=run,
            seq_id=3 * number + 3,
            kind="inflight",
            sampling_session_seq_id=number,
        )
        told = client.read(published).json()
        assert told["motet"]["number"] == number + 1 and told["motet"]["seconds"] > 0
        made.append(told["sampling_session_id"])
    answers = [client.read(sample(client, sampler, 0)).content for sampler in made]
    assert answers[0] == answers[1]  # the older one has gone over to the newer version
    versions = client.http.get("/motet/v1/versions", params={"run": run}).json()["versions"]
    assert [version["number"] for version in versions] == [1, 2]
    assert {version["name"] for version in versions} == {"fast one"}
    for _ in range(2):  # the first goodbye counts
        client.post(f"sessions/{client.session}/finish", reason={"type": "success"})
    assert client.send("session_heartbeat", session_id=client.session).status_code == 410
    wait_until(lambda: stats(client)["engine"]["versions"] == before["versions"])
    wait_until(lambda: stats(client)["engine"]["runs"] == before["runs"])
    assert client.send("asample", **{"sampling_session_id": made[0]}).status_code == 422


def test_checkpoints_keep_to_their_folder(client: Client, folder: Path) -> None:
    run = client.run()
    for number, name in enumerate(("../../evil", "a/b", "", ".hidden", "x" * 200), start=1):
        failed = client.read(client.post("save_weights", model_id=run, path=name, seq_id=number)).json()
        assert failed["category"] == "user" and "no name for a checkpoint" in failed["error"]
    saved = client.read(client.post("save_weights", model_id=run, path="good", seq_id=6, ttl_seconds=3600)).json()
    again = client.read(client.post("save_weights", model_id=run, path="good", seq_id=7)).json()
    assert "exists" in again["error"]
    over = client.read(client.post("save_weights", model_id=run, path="good", seq_id=8, overwrite=True)).json()
    assert over["path"] == saved["path"]
    listed = client.http.get(f"/api/v1/training_runs/{run}/checkpoints").json()["checkpoints"]
    assert [one["tinker_path"] for one in listed] == [saved["path"]] and listed[0]["size_bytes"] > 1000
    place = folder / "data" / "checkpoints" / run.replace(":", "_") / "weights"
    wait_until(lambda: len(list(place.iterdir())) == 1)  # what was overwritten goes after the answer
    assert client.http.delete(f"/api/v1/training_runs/{run}/checkpoints/weights/good").status_code == 204
    assert list(place.iterdir()) == []


def test_the_engine_is_started_again_when_it_dies(model: Path, tmp_path: Path) -> None:
    with serving(model, tmp_path) as server:
        client = Client(server.address, "tml-one")
        run, sampler = client.run(), client.sampler()
        long = sample(client, sampler, 0, sampling_params={"max_tokens": 500, "stop": []}, num_samples=64)
        os.kill(engine_process(server.pid), signal.SIGKILL)
        assert client.http.get("/api/v1/healthz").status_code == 200
        assert client.read(long).headers["content-type"] == PROTOBUF  # drawn by the next one
        assert client.read(client.train(run, 1).json()).headers["content-type"] == PROTOBUF
        assert client.read(sample(client, sampler, 1)).headers["content-type"] == PROTOBUF
        assert client.read(client.train(client.run(), 1).json()).headers["content-type"] == PROTOBUF


def engine_process(server: int) -> int:
    """The child of a server that runs the engine."""
    threads = Path(f"/proc/{server}/task").iterdir()
    children = [pid for thread in threads for pid in (thread / "children").read_text().split()]
    (engine,) = [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return int(engine)


def serve(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "motet.cli", "serve", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_what_keeps_a_server_from_starting_is_said(address: str, tmp_path: Path) -> None:
    missing = serve("--model", str(tmp_path / "nowhere"), "--port", "0", "--data-dir", str(tmp_path / "data"))
    assert missing.returncode == 2 and missing.stdout == ""
    assert "error:" in missing.stderr and "nowhere" in missing.stderr and "Traceback" not in missing.stderr
    taken = serve("--port", address.rpartition(":")[2], "--data-dir", str(tmp_path / "data"))
    assert taken.returncode == 2 and "choose another --port" in taken.stderr
    open_wide = serve("--host", "0.0.0.0", "--port", "0", "--data-dir", str(tmp_path / "data"))
    assert open_wide.returncode == 2 and "motet keys create" in open_wide.stderr


def test_the_services_process_imports_no_torch() -> None:
    code = (
        "import json, sys, motet.cli, motet.engine.process, motet.service.http.server\n"
        "print(json.dumps([name for name in ('torch', 'transformers') if name in sys.modules]))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(told) == []
