"""One key's view of a server over plain HTTP: what the SDK would never send included."""

from __future__ import annotations

import ssl
from typing import Any

import httpx
import numpy as np
import zstandard
from tinker import types
from tinker.proto.request_conv import forward_backward_request_to_proto

PROTOBUF = "application/x-protobuf"


class Client:
    """One key's view of the server."""

    def __init__(self, address: str, key: str, verify: ssl.SSLContext | bool = True) -> None:
        self.http = httpx.Client(base_url=address, headers={"X-API-Key": key}, timeout=60, verify=verify)
        self.session = self.post("create_session", tags=[], user_metadata={"team": 7})["session_id"]
        self._models = iter(range(10_000))

    def send(self, route: str, **body: Any) -> httpx.Response:
        return self.http.post(f"/api/v1/{route}", json=body)

    def post(self, route: str, **body: Any) -> dict[str, Any]:
        answer = self.send(route, **body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def read(self, promise: dict[str, Any]) -> httpx.Response:
        while (answer := self.send("retrieve_future", request_id=promise["request_id"])).status_code == 408:
            assert answer.json()["type"] == "try_again"
        return answer

    def create(self, **changes: Any) -> dict[str, Any]:
        """Ask for a run."""
        body = {
            "session_id": self.session,
            "model_seq_id": next(self._models),
            "base_model": self.http.get("/api/v1/get_server_capabilities").json()["supported_models"][0]["model_name"],
            "lora_config": {"rank": 4, "seed": 1},
            **changes,
        }
        return self.post("create_model", **body)

    def run(self, **changes: Any) -> str:
        created = self.read(self.create(**changes)).json()
        assert created.get("type") == "create_model", created
        return str(created["model_id"])

    def train(self, run: str, number: int, tokens: list[int] | None = None, **headers: str) -> httpx.Response:
        body = training(run, number, tokens)
        if headers.get("content_encoding") == "zstd":
            body = zstandard.compress(body)
        return self.http.post(
            "/api/v1/forward_backward",
            content=body,
            headers={"Content-Type": PROTOBUF, **{key.replace("_", "-"): value for key, value in headers.items()}},
        )

    def sampler(self, number: int = 0) -> str:
        made = self.post(
            "create_sampling_session",
            session_id=self.session,
            sampling_session_seq_id=number,
            base_model=self.http.get("/api/v1/get_server_capabilities").json()["supported_models"][0]["model_name"],
        )
        return str(made["sampling_session_id"])


def training(run: str, number: int, tokens: list[int] | None = None) -> bytes:
    tokens = tokens or [5, 6, 7, 8]
    datum = types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs={"target_tokens": np.array(tokens[1:])}
    )
    inner = types.ForwardBackwardInput(data=[datum], loss_fn="cross_entropy")
    request = types.ForwardBackwardRequest(forward_backward_input=inner, model_id=run, seq_id=number)
    return bytes(forward_backward_request_to_proto(request).SerializeToString())
