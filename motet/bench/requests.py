"""Plain requests for benchmarks: one client's session and run, without the SDK's own time."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
from tinker import types
from tinker.proto.request_conv import forward_backward_request_to_proto

PROTOBUF = {"Content-Type": "application/x-protobuf"}


class Visit:
    """A session on a server."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self.model = self.get("get_server_capabilities")["supported_models"][0]["model_name"]
        self.session = self.post("create_session", tags=[], user_metadata={})["session_id"]
        self._runs = 0

    def get(self, route: str) -> Any:
        return self.http.get(f"/api/v1/{route}").raise_for_status().json()

    def post(self, route: str, **body: Any) -> Any:
        return self.http.post(f"/api/v1/{route}", json=body).raise_for_status().json()

    def read(self, promise: dict[str, Any]) -> bytes:
        """The result, however long it takes."""
        while True:
            answer = self.http.post("/api/v1/retrieve_future", json={"request_id": promise["request_id"]})
            if answer.status_code != 408:
                return answer.raise_for_status().content

    def create_run(self, rank: int = 16) -> Run:
        self._runs += 1
        body = {"session_id": self.session, "model_seq_id": self._runs, "base_model": self.model}
        made = self.post("create_model", **body, lora_config={"rank": rank, "seed": self._runs})
        self.read(made)
        return Run(self, made["model_id"])

    def create_sampler(self, number: int) -> str:
        """On the base model."""
        body = {"session_id": self.session, "sampling_session_seq_id": number, "base_model": self.model}
        return str(self.post("create_sampling_session", **body)["sampling_session_id"])


class Run:
    """One run's requests; each gives its promise."""

    def __init__(self, visit: Visit, run_id: str) -> None:
        self._visit = visit
        self.id = run_id
        self._number = 0

    def forward_backward(self, datums: int, length: int) -> Any:
        self._number += 1
        tokens = np.random.default_rng(self._number).integers(3, 250, (datums, length + 1))
        data = [
            types.Datum(
                model_input=types.ModelInput.from_ints(row[:-1].tolist()), loss_fn_inputs={"target_tokens": row[1:]}
            )
            for row in tokens
        ]
        inner = types.ForwardBackwardInput(data=data, loss_fn="cross_entropy")
        request = types.ForwardBackwardRequest(forward_backward_input=inner, model_id=self.id, seq_id=self._number)
        body = forward_backward_request_to_proto(request).SerializeToString()
        return self._visit.http.post("/api/v1/forward_backward", content=body, headers=PROTOBUF).json()

    def step(self) -> Any:
        return self._post("optim_step", adam_params={"learning_rate": 1e-4})

    def publish(self, number: int) -> Any:
        return self._post("save_weights_for_sampler", sampling_session_seq_id=number)

    def _post(self, route: str, **body: Any) -> Any:
        self._number += 1
        return self._visit.post(route, model_id=self.id, seq_id=self._number, **body)
