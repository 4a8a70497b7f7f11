"""kill -9 of the engine, of the server, of both, at any moment: nothing that was acknowledged is lost, to the bit."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tinker.proto.response_conv import deserialize_forward_backward_output, deserialize_sample_response

from motet.service.http.jobs.weights import NAMELESS_VERSIONS
from tests.service.client import PROTOBUF, Client
from tests.service.running import Restartable, wait_until
from tests.tiny import make_tiny_model

PATIENCE = 60.0  # seconds that a client bridges
Kill = Callable[[Restartable], None]


class PatientClient(Client):
    """As the SDK: what does not go through, and what the server cannot take now, is sent again."""

    patience = PATIENCE

    def send(self, route: str, **body: Any) -> httpx.Response:
        return self._patiently(lambda: super(PatientClient, self).send(route, **body))

    def train(self, run: str, number: int, tokens: list[int] | None = None, **headers: str) -> httpx.Response:
        return self._patiently(lambda: super(PatientClient, self).train(run, number, tokens, **headers))

    def _patiently(self, call: Callable[[], httpx.Response]) -> httpx.Response:
        deadline = time.monotonic() + self.patience
        while True:
            try:
                answer = call()
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code < 500:
                return answer
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)


def facts(answer: httpx.Response) -> Any:
    """A result without what is measured by a clock."""
    if answer.headers["content-type"] != PROTOBUF:
        told = answer.json()
        assert "error" not in told, told
        told.get("motet", {}).pop("seconds", None)
        return {key: value for key, value in told.items() if key not in ("model_id", "sampling_session_id", "path")}
    try:
        output = deserialize_forward_backward_output(answer.content)
    except Exception:  # the SDK raises what protobuf does
        sampled = deserialize_sample_response(answer.content)
        return [(list(one.tokens), list(one.logprobs or [])) for one in sampled.sequences]
    told = [np.asarray(one["logprobs"].data).tolist() for one in output.loss_fn_outputs]
    return told, output.metrics["loss:sum"]


def play(client: Client, steps: int, seed: int, told: list[Any]) -> list[Any]:
    """A run of training and sampling, several requests on their way at a time; every result, in order, into `told`."""
    draw = random.Random(seed)
    run, number, sent = client.run(lora_config={"rank": 4, "seed": 7}), 0, []

    def ask(route: str, **body: Any) -> None:
        nonlocal number
        number += 1
        sent.append(client.post(route, model_id=run, seq_id=number, **body))

    for step in range(steps):
        for _ in range(2):
            number += 1
            tokens = [draw.randrange(3, 250) for _ in range(draw.randrange(4, 30))]
            sent.append(client.train(run, number, tokens).json())
        ask("optim_step", adam_params={"learning_rate": 1e-2})
        ask("save_weights_for_sampler", sampling_session_seq_id=step)
        if step % 2 == 0:
            continue  # two steps are on their way at a time
        sampler = f"{client.session}:sample:{step - 1}"
        told += [facts(client.read(promise)) for promise in sent]
        sent.clear()
        prompt = {"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7]}]}
        body = {"sampling_session_id": sampler, "seq_id": 0, "prompt": prompt, "num_samples": 2}
        drawn = client.post("asample", **body, sampling_params={"max_tokens": 20, "seed": step, "temperature": 1.0})
        told.append(facts(client.read(drawn)))
    number += 1
    sent.append(client.train(run, number, [9, 8, 7, 6]).json())
    ask("save_weights_for_sampler", path="last")
    told += [facts(client.read(promise)) for promise in sent]
    return told


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model"), "qwen3")


@pytest.fixture(scope="module")
def server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    """One server and one data folder for all tests here: it lives through everything that is done to it."""
    server = Restartable(model, tmp_path_factory.mktemp("server"), ("--dtype", "float32"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def undisturbed(model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    server = Restartable(model, tmp_path_factory.mktemp("undisturbed"), ("--dtype", "float32"))
    server.start()
    told = play(Client(server.address, "tml-one"), STEPS, 1, [])
    server.stop()
    return told


STEPS = 10  # more than between two snapshots


def kill_server(server: Restartable) -> None:
    server.kill_server()
    server.start()


def kill_both(server: Restartable) -> None:
    server.kill_both()
    server.start()


KILLS: tuple[Kill, ...] = (Restartable.kill_engine, kill_server, kill_both)


@pytest.mark.parametrize("moment", range(3))
def test_a_killed_run_ends_as_one_that_was_not(server: Restartable, undisturbed: list[Any], moment: int) -> None:
    played_through_kills(server, undisturbed, random.Random(moment), [KILLS[moment]])


@pytest.mark.long
def test_fifty_kills(server: Restartable, undisturbed: list[Any]) -> None:
    draw = random.Random(0)
    for _ in range(25):
        played_through_kills(server, undisturbed, draw, [draw.choice(KILLS) for _ in range(2)])


def played_through_kills(server: Restartable, undisturbed: list[Any], draw: random.Random, kills: list[Kill]) -> None:
    told: list[Any] = []
    client = PatientClient(server.address, "tml-one")
    playing = threading.Thread(target=play, args=(client, STEPS, 1, told))
    playing.start()
    for moment, kill in zip(sorted(draw.sample(range(len(undisturbed) - 12), len(kills))), kills, strict=True):
        wait_until(lambda moment=moment: len(told) >= moment, PATIENCE)
        time.sleep(draw.uniform(0.0, 0.05))
        assert playing.is_alive()
        kill(server)
    playing.join(timeout=120)
    assert not playing.is_alive(), server.log.read_text()
    assert told == undisturbed


def test_results_can_be_read_after_a_restart(server: Restartable) -> None:
    client = PatientClient(server.address, "tml-one")
    run = client.run()
    trained = client.train(run, 1).json()
    before = client.read(trained).content
    kill_both(server)
    assert client.read(trained).content == before
    assert client.read(client.train(run, 1).json()).content == before  # sent again: the same request


def test_what_arrived_too_early_is_kept_over_a_restart(server: Restartable) -> None:
    client = PatientClient(server.address, "tml-one")
    run = client.run()
    early = client.train(run, 2).json()
    kill_both(server)
    assert client.train(run, 1).status_code == 200
    assert client.read(early).headers["content-type"] == PROTOBUF


def drawing(client: Client, sampler: str, number: int, tokens: int) -> dict[str, Any]:
    """Ask a sampler for so many tokens."""
    prompt = {"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7]}]}
    params = {"max_tokens": tokens, "seed": 1, "temperature": 1.0, "stop": []}
    return client.post("asample", sampling_session_id=sampler, seq_id=number, prompt=prompt, sampling_params=params)


def test_samples_of_a_session_that_is_finished_keep_no_server_from_starting(server: Restartable) -> None:
    client = PatientClient(server.address, "tml-one")
    sampler = client.sampler()
    asked = [drawing(client, sampler, number, 110) for number in range(40)]
    assert client.http.post(f"/api/v1/sessions/{client.session}/finish").status_code == 200
    kill_both(server)
    told = client.read(asked[-1]).json()
    assert told["category"] == "user" and "finished" in told["error"]


def test_inflight_samplers_outlive_their_first_versions(server: Restartable) -> None:
    client = PatientClient(server.address, "tml-one")
    run = client.run()
    for number in range(1, NAMELESS_VERSIONS + 3):
        body = {"model_id": run, "seq_id": number, "sampling_session_seq_id": number, "kind": "inflight"}
        assert "content_hash" in client.read(client.post("save_weights_for_sampler", **body)).json()["motet"]
    kill_both(server)
    oldest, newest = (client.read(drawing(client, f"{client.session}:sample:{n}", 0, 4)) for n in (1, number))
    assert facts(oldest) == facts(newest)


def test_a_full_disk_takes_the_step_back_and_the_run_goes_on(model: Path, tmp_path: Path) -> None:
    """The data folder lives on a small file system of its own."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode()}")
    try:
        fills_up_and_goes_on(model, folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fills_up_and_goes_on(model: Path, folder: Path) -> None:
    server = Restartable(model, folder, ("--dtype", "float32"))
    server.start()
    client = PatientClient(server.address, "tml-one")
    run = client.run()
    step = {"model_id": run, "adam_params": {"learning_rate": 1e-2}}
    first = facts(client.read(client.train(run, 1).json()))
    ballast = folder / "ballast"
    with suppress(OSError), ballast.open("wb") as file:
        while True:
            file.write(bytes(4096))
    failed = client.read(client.post("optim_step", **step, seq_id=2)).json() if can_accept(client, step) else {}
    assert failed.get("category", "server") == "server"
    assert client.http.get("/api/v1/healthz").status_code == 200
    ballast.unlink()
    again = client.read(client.post("optim_step", **step, seq_id=3 if failed else 2)).json()
    assert "metrics" in again, again
    assert facts(client.read(client.train(run, 4 if failed else 3).json())) != first  # the step was taken, once
    kill_both(server)
    saved = client.post("save_weights_for_sampler", model_id=run, seq_id=5 if failed else 4, path="a")
    assert "content_hash" in client.read(saved).json()["motet"]
    server.stop()


def can_accept(client: Client, step: dict[str, Any]) -> bool:
    """Either the acceptance finds no room (503, and it has not happened), or the work does."""
    answer = client.http.post("/api/v1/optim_step", json={**step, "seq_id": 2})
    assert answer.status_code in (200, 503), answer.text
    if answer.status_code == 503:
        assert "could not be stored" in answer.json()["error"]
    return answer.status_code == 200


def test_a_session_that_is_silent_rests_and_comes_back(model: Path, tmp_path: Path) -> None:
    (tmp_path / "motet.toml").write_text("[service]\nrest_seconds = 1.0\n")
    server = Restartable(model, tmp_path, ("--dtype", "float32", "--config", str(tmp_path / "motet.toml")))
    server.start()
    client = PatientClient(server.address, "tml-one")
    run = client.run()
    before = client.read(client.train(run, 1).json())
    client.read(client.post("optim_step", model_id=run, seq_id=2, adam_params={}))
    published = client.post("save_weights_for_sampler", model_id=run, seq_id=3, sampling_session_seq_id=0)
    client.read(published)
    wait_until(lambda: client.http.get("/motet/v1/stats").json()["engine"]["runs"] == 0)
    sampler = f"{client.session}:sample:0"
    prompt = {"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7]}]}
    body = {"sampling_session_id": sampler, "seq_id": 0, "prompt": prompt, "num_samples": 1}
    drawn = client.post("asample", **body, sampling_params={"max_tokens": 4, "seed": 1, "temperature": 1.0})
    assert client.read(drawn).headers["content-type"] == PROTOBUF
    after = client.read(client.train(run, 4).json())
    assert after.headers["content-type"] == PROTOBUF and facts(after) != facts(before)
    server.stop()
