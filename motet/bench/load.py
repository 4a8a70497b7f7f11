"""Many clients at once through the real SDK: runs that train, samples that wait, heartbeats that must be answered."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
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


@dataclass(frozen=True)
class Pulse:
    """What heartbeats met, one every 100 ms."""

    beats: int
    longest: float  # seconds
    memory: int  # the most bytes that the server and its engine held


def feel_pulse(server: KillableServer, stop: Event, told: Connection) -> None:
    """Beat until told to stop. In a process of its own: the crowd's process has enough to do."""
    beats, longest, memory = 0, 0.0, 0
    with server.client() as http:
        visit = Visit(http)
        while not stop.wait(0.1):
            began = time.perf_counter()
            visit.post("session_heartbeat", session_id=visit.session)
            longest = max(longest, time.perf_counter() - began)
            beats += 1
            if beats % 10 == 0:
                memory = max(memory, server.memory_bytes())
    told.send(Pulse(beats, longest, memory))


def bench_load(model: str, runs: int, samples: int, json_file: Path | None) -> None:
    """Any error of any request is raised. Shown: time, the longest heartbeat, the most memory."""
    spawning = multiprocessing.get_context("spawn")
    with TemporaryDirectory(prefix="motet-bench-") as folder:
        server = KillableServer(model, Path(folder))
        server.start()
        here, there = spawning.Pipe()
        stop = spawning.Event()
        feeling = spawning.Process(target=feel_pulse, args=(server.alike(), stop, there), daemon=True)
        feeling.start()
        began = time.perf_counter()
        try:
            asyncio.run(_crowd(server.address, runs, samples))
            seconds = time.perf_counter() - began
            stop.set()
            pulse: Pulse = here.recv()
        finally:
            server.stop()
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
    drawing = [sampler.sample(PROMPT, 1, params) for _ in range(samples)]
    await asyncio.gather(*(_train(service, model, seed) for seed in range(runs)))
    for drawn in drawing:
        await drawn


async def _train(service: tinker.ServiceClient, model: str, seed: int) -> None:
    training = await service.create_lora_training_client(model, rank=8, seed=seed)
    datum = types.Datum(model_input=PROMPT, loss_fn_inputs={"target_tokens": TARGETS})
    for _ in range(STEPS):
        passing = training.forward_backward([datum], "cross_entropy")
        stepping = training.optim_step(types.AdamParams(learning_rate=1e-4))
        await passing
        await stepping
    sampler = await training.save_weights_and_get_sampling_client()
    await sampler.sample(PROMPT, 2, types.SamplingParams(max_tokens=8))
