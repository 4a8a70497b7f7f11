"""What whoever runs a server sees of it: metrics, logs, status. One real server, set up by a file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.service.client import Client
from tests.service.running import Server, engine_asleep, serving, wait_until
from tests.tiny import make_tiny_model

OPERATION = (Path(__file__).parents[2] / "docs" / "operation.md").read_text()
KEY, OTHER, BARE = "tml-operators-own-key", "tml-somebody-elses-key", "a-key-of-no-known-shape"
SETTINGS = f"""
[service]
api_keys = ["{KEY}", "{OTHER}", "{BARE}"]
poll_seconds = 0.5
[log]
format = "json"
level = "debug"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operation")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    (folder / "motet.toml").write_text(SETTINGS)
    model = make_tiny_model(folder, "qwen3")
    with serving(model, folder, ["--config", str(folder / "motet.toml")]) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Server) -> Client:
    return Client(server.address, KEY)


def log_by_id(folder: Path) -> dict[str | None, dict[str, Any]]:
    """Lines of the log by their request's id, as far as they are written."""
    lines = (folder / "server.log").read_text().rpartition("\n")[0].splitlines()
    return {line.get("x_request_id"): line for line in map(json.loads, lines)}


def scrape(server: Server) -> dict[str, float]:
    """Every sample by its name and labels, as it is written."""
    answer = httpx.get(f"{server.address}/metrics", headers={"Authorization": f"Bearer {KEY}"}, timeout=10)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain")
    rows = (line.rpartition(" ") for line in answer.text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in rows}


def test_metrics_tell_what_happened(server: Server, client: Client) -> None:
    before = scrape(server)
    run = client.run(user_metadata={"motet.name": "the run"})
    client.read(client.train(run, 1, [5, 6, 7, 8, 9]).json())
    client.read(client.post("optim_step", model_id=run, seq_id=2, adam_params={"learning_rate": 0.1}))
    client.read(client.post("optim_step", model_id=run, seq_id=3, adam_params={"eps": -1.0}))
    client.read(client.post("save_weights_for_sampler", model_id=run, seq_id=4, path="named"))
    assert client.send("get_info", model_id="nope").status_code == 404
    assert client.http.get(f"/api/v1/training_runs/{run}").status_code == 200
    after = scrape(server)

    def grown(name: str) -> float:
        return after[name] - before.get(name, 0.0)

    assert grown("motet_trained_tokens_total") == 4
    assert grown("motet_publishes_total") == 1
    assert grown('motet_engine_request_seconds_count{request="CreateRun"}') == 1
    assert grown('motet_engine_request_seconds_count{request="ForwardBackward"}') == 1
    assert grown('motet_engine_request_seconds_count{request="OptimStep"}') == 1
    assert grown('motet_failures_total{kind="BadRequest"}') == 1
    assert grown('motet_http_errors_total{kind="NotFound"}') == 1
    route = 'method="GET",route="/api/v1/training_runs/{run_id}"'
    assert grown(f"motet_http_request_seconds_count{{{route}}}") == 1
    assert grown(f'motet_http_requests_total{{{route},status="200"}}') == 1
    assert grown("motet_catalog_commits_total") > 0
    assert grown("motet_engine_training_busy_seconds_total") > 0
    assert (after["motet_engine_runs"], after["motet_engine_versions"]) == (1, 1)
    assert (after["motet_engine_up"], after["motet_requests_pending"]) == (1, 0)
    assert after["motet_engine_resident_bytes"] > 50e6


def test_every_metric_is_told(server: Server, client: Client) -> None:
    text = httpx.get(f"{server.address}/metrics", headers={"X-API-Key": KEY}).text
    families = [one for one in text_string_to_metric_families(text) if not one.name.startswith("process_")]
    there = {f"{one.name}_total" if one.type == "counter" else one.name for one in families}
    rows = re.findall(r"^\| (`motet_[^|]+) \|", OPERATION, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == there


def test_metrics_are_for_those_with_a_key(server: Server) -> None:
    assert httpx.get(f"{server.address}/metrics").status_code == 401
    assert httpx.get(f"{server.address}/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_metrics_never_wait_for_the_engine(server: Server, client: Client) -> None:
    known = scrape(server)
    with engine_asleep(server):
        began = time.monotonic()
        asleep = scrape(server)
        assert 0.9 < time.monotonic() - began < 3
        assert asleep["motet_engine_up"] == 0
        assert asleep["motet_engine_sample_steps_total"] == known["motet_engine_sample_steps_total"]
        assert client.http.get("/motet/v1/status").json()["engine_up"] is False
    wait_until(lambda: scrape(server)["motet_engine_up"] == 1)


def test_a_request_keeps_its_id(server: Server, client: Client, folder: Path) -> None:
    def asked(given: str | None) -> str:
        headers = {} if given is None else {"X-Request-ID": given}
        return str(client.http.get("/motet/v1/versions", headers=headers).headers["x-request-id"])

    assert asked("my-request.1") == "my-request.1"
    made = {asked(None), asked("no good\tone"), asked("x" * 200), asked("")}
    assert len(made) == 4 and all(re.fullmatch("[0-9a-f]{16}", one) for one in made)
    wait_until(lambda: made < set(log_by_id(folder)))  # a line is written once its answer is out
    told = log_by_id(folder)["my-request.1"]
    assert (told["message"], told["status"], told["level"]) == ("GET /motet/v1/versions", 200, "info")
    assert told["process"] == "service" and told["milliseconds"] > 0


def test_no_key_is_in_the_log(server: Server, folder: Path) -> None:
    secrets = [KEY, OTHER, BARE, "tml-a-wrong-key"]
    for secret in secrets:
        with httpx.Client(base_url=server.address, headers={"X-API-Key": secret}) as http:
            http.post("/api/v1/create_session", json={"tags": secret})
            http.post("/api/v1/create_session", content=b"{" + secret.encode())
            http.post("/api/v1/get_info", json={"model_id": secret})
            http.get("/motet/v1/versions", params={"run": secret})
            http.get("/metrics", headers={"Authorization": f"Bearer {secret}"})
    keyed = httpx.get(f"{server.address}/api/v1/sessions/{KEY}", headers={"X-API-Key": KEY, "X-Request-ID": OTHER})
    assert keyed.status_code == 404
    wait_until(lambda: "tml-***" in (folder / "server.log").read_text())  # the last one, masked
    text = (folder / "server.log").read_text()
    assert not [secret for secret in secrets if secret in text]


def status(server: Server, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "motet.cli", "status", "--base-url", server.address, "--every", "0.2", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_status_shows_a_frame(server: Server, client: Client) -> None:
    stranger = Client(server.address, OTHER)
    hidden = stranger.run(user_metadata={"motet.name": "their run"})
    frame = status(server, "--once", "--api-key", KEY)
    assert frame.returncode == 0, frame.stderr
    assert "engine up" in frame.stdout and "the run" in frame.stdout
    assert "others" in frame.stdout
    assert "their run" not in frame.stdout and hidden not in frame.stdout
    told = client.http.get("/motet/v1/status").json()
    assert [run["device_seconds"] > 0 for run in told["runs"]] == [True], "it has taken a step"
    assert hidden not in json.dumps([told, client.http.get("/motet/v1/stats").json()])
    assert [(one["tenant"] == "others", one["runs"]) for one in told["tenants"]] == [(False, 1), (True, 1)]


def test_status_says_what_is_missing(server: Server) -> None:
    refused = status(server, "--once", "--api-key", "tml-a-wrong-key")
    assert refused.returncode == 2 and "401" in refused.stderr and "API key" in refused.stderr
    nobody = status(Server("http://127.0.0.1:9", 0), "--once")
    assert nobody.returncode == 2 and "no Motet server answers" in nobody.stderr


def test_whoever_waits_is_told_why(server: Server, client: Client) -> None:
    run = client.run()
    with engine_asleep(server):
        promise = client.train(run, 1).json()
        answer = client.send("retrieve_future", request_id=promise["request_id"])
    assert answer.status_code == 408
    assert (
        answer.json()["queue_state"] == "paused_capacity" and "nothing is lost" in answer.json()["queue_state_reason"]
    )
    assert client.read(promise).status_code == 200
