"""Many clients at once through the real SDK: runs that train, samples that wait, heartbeats that must be answered."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import tinker
from tinker import types

from motet.bench.common import show
from motet.bench.requests import Visit
from motet.bench.server import KEY, KillableServer

STEPS = 3
PROMPT = types.ModelInput.from_ints(list(range(3, 19)))
TARGETS = types.TensorData.from_numpy(np.arange(4, 20))
MIB = 1024.0**2


class Pulse:
    """A heartbeat every 100 ms, and the longest that one took."""

    def __init__(self, server: KillableServer) -> None:
        self.longest = 0.0
        self.beats = 0
        self.memory = 0
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        with self._server.client() as http:
            visit = Visit(http)
            while not self._stop.wait(0.1):
                began = time.perf_counter()
                visit.post("session_heartbeat", session_id=visit.session)
                self.longest = max(self.longest, time.perf_counter() - began)
                self.beats += 1
                if self.beats % 10 == 0:
                    self.memory = max(self.memory, self._server.memory_bytes())


def bench_load(model: str, runs: int, samples: int, json_file: Path | None) -> None:
    """Any error of any request is raised. Shown: time, the longest heartbeat, the most memory."""
    with TemporaryDirectory(prefix="motet-bench-") as folder:
        server = KillableServer(model, Path(folder))
        server.start()
        pulse = Pulse(server)
        began = time.perf_counter()
        try:
            asyncio.run(_crowd(server.address, runs, samples))
        finally:
            pulse.stop()
            server.stop()
        seconds = time.perf_counter() - began
    columns = ["runs", "samples", "seconds", "heartbeats", "longest heartbeat ms", "most memory MiB"]
    row = [runs, samples, seconds, pulse.beats, 1e3 * pulse.longest, pulse.memory / MIB]
    show(f"A crowd through the SDK: {model}", columns, [row], json_file)


async def _crowd(address: str, runs: int, samples: int) -> None:
    service = tinker.ServiceClient(base_url=address, api_key=KEY["X-API-Key"])
    capabilities = await service.get_server_capabilities_async()
    model = capabilities.supported_models[0].model_name
    assert model is not None
    sampler = await service.create_sampling_client_async(base_model=model)
    params = types.SamplingParams(max_tokens=32, temperature=1.0)
    drawing = [asyncio.ensure_future(sampler.sample_async(PROMPT, 1, params)) for _ in range(samples)]
    await asyncio.gather(*(_train(service, model, seed) for seed in range(runs)))
    await asyncio.gather(*drawing)


async def _train(service: tinker.ServiceClient, model: str, seed: int) -> None:
    training = await service.create_lora_training_client_async(model, rank=8, seed=seed)
    datum = types.Datum(model_input=PROMPT, loss_fn_inputs={"target_tokens": TARGETS})
    for _ in range(STEPS):
        passing = await training.forward_backward_async([datum], "cross_entropy")
        stepping = await training.optim_step_async(types.AdamParams(learning_rate=1e-4))
        await passing
        await stepping
    sampler = await training.save_weights_and_get_sampling_client_async()
    await sampler.sample_async(PROMPT, 2, types.SamplingParams(max_tokens=8))
