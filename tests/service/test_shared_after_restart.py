"""What was shared, copied, let expire, moved and linked is so after a `kill -9` of everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from tinker.proto.response_conv import deserialize_sample_response

from tests.service.client import Client
from tests.service.running import Restartable
from tests.tiny import make_tiny_model


def sampled(client: Client, path: str, number: int) -> list[int]:
    body = {"session_id": client.session, "sampling_session_seq_id": number, "model_path": path}
    sampler = client.post("create_sampling_session", **body)["sampling_session_id"]
    prompt = {"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7]}]}
    params = {"max_tokens": 6, "seed": 3, "stop": []}
    asked = client.post("asample", sampling_session_id=sampler, seq_id=0, prompt=prompt, sampling_params=params)
    return list(deserialize_sample_response(client.read(asked).content).sequences[0].tokens)


def test_it_stands(tmp_path: Path) -> None:
    server = Restartable(make_tiny_model(tmp_path, "qwen3"), tmp_path, ["--dtype", "float32"])
    server.start()
    owner, other = Client(server.address, "tml-owner"), Client(server.address, "tml-other")
    run = owner.run()
    sends: dict[str, dict[str, Any]] = {"save_weights_for_sampler": {}, "save_weights_external": {"ttl_seconds": 7200}}
    paths = {}
    for number, (route, more) in enumerate(sends.items(), start=1):
        promise = owner.post(route, model_id=run, seq_id=number, path="one", **more)
        paths[route] = owner.read(promise).json()["path"]
    base, shown = f"/api/v1/training_runs/{run}/checkpoints", "sampler_weights/one"
    assert owner.http.post(f"{base}/{shown}/publish").status_code == 204
    assert owner.http.put(f"/api/v1/sessions/{owner.session}/project", json={"project_id": "alto"}).status_code == 204
    links = owner.http.get(f"{base}/external_weights/one/external_weights_urls").json()["urls"]
    files = {name: httpx.get(url).content for name, url in links.items()}
    assert files and all(files.values())
    source = paths["save_weights_for_sampler"]
    copy = other.post("copy_weights", source_path=source, destination_project_id="shelf")["tinker_path"]
    expected = sampled(other, source, 0)
    assert sampled(other, copy, 1) == expected

    server.kill_both()
    server.start()
    assert {name: httpx.get(url).content for name, url in links.items()} == files
    listed = {one["tinker_path"]: one for one in owner.http.get("/api/v1/checkpoints").json()["checkpoints"]}
    assert listed[source]["public"] and listed[paths["save_weights_external"]]["expires_at"] is not None
    assert sampled(other, source, 2) == expected
    assert owner.http.delete(f"{base}/{shown}").status_code == 204
    assert sampled(other, copy, 3) == expected
    found = owner.post("sessions/search", project_ids=["alto"])["sessions"]
    assert [session["session_id"] for session in found] == [owner.session]
    stored = other.http.get("/api/v1/billing/usage/checkpoints/current").json()["data"]
    assert [(one["project_id"], one["checkpoint_count"]) for one in stored] == [("shelf", 1)]
    server.stop()
