"""How long somebody waits for the first token of an answer: on an idle engine, and beside training and rollouts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory

import httpx
import numpy as np
import tinker
from tinker import types

from motet.bench.common import show
from motet.bench.server import KEY, KillableServer

ANSWER_TOKENS = 16
DATUM_TOKENS = 128
DATUMS = 16  # of one training request
ROLLOUTS = 32  # samples of one rollout request
ROLLOUT_TOKENS = 64


@dataclass(eq=False)
class Neighbours:
    """What trains and samples beside the answers."""

    service: tinker.ServiceClient
    model: str
    trained: int = 0  # tokens
    rolled: int = 0

    async def train(self) -> None:
        """Passes and steps without a pause."""
        run = await self.service.create_lora_training_client_async(self.model, rank=16, seed=1)
        tokens = np.random.default_rng(0).integers(1000, 5000, (DATUMS, DATUM_TOKENS + 1))
        data = [
            types.Datum(
                model_input=types.ModelInput.from_ints(line[:-1].tolist()),
                loss_fn_inputs={"target_tokens": types.TensorData.from_numpy(line[1:])},
            )
            for line in tokens
        ]
        while True:
            passing = run.forward_backward(data, "cross_entropy")
            stepping = run.optim_step(types.AdamParams(learning_rate=1e-5))
            await passing
            await stepping
            self.trained += DATUMS * DATUM_TOKENS

    async def roll_out(self) -> None:
        """Samples of one prompt without a pause."""
        sampler = await self.service.create_sampling_client_async(base_model=self.model)
        prompt = types.ModelInput.from_ints(list(range(1000, 1064)))
        params = types.SamplingParams(max_tokens=ROLLOUT_TOKENS, temperature=1.0, stop=[])
        while True:
            drawn = await sampler.sample_async(prompt, ROLLOUTS, params)
            self.rolled += sum(len(one.tokens) for one in drawn.sequences)


@dataclass(frozen=True)
class Wait:
    """What one visitor met, in seconds."""

    first: float  # until the first token
    whole: float


def milliseconds(seconds: list[float]) -> list[float]:
    """Median and 95th percentile."""
    found = quantiles(seconds, n=20, method="inclusive")
    return [1e3 * found[9], 1e3 * found[18]]


def bench_serving(model: str, rate: float, answers: int, json_file: Path | None) -> None:
    """So many answers at a rate a second (exponential gaps, one seed), alone and beside neighbours."""
    with TemporaryDirectory(prefix="motet-bench-") as folder:
        server = KillableServer(model, Path(folder))
        server.start()
        try:
            rows = asyncio.run(_all(server.address, rate, answers))
        finally:
            server.stop()
    columns = ["beside", "first ms", "95th", "whole ms", "95th", "trained tokens/s", "rollout tokens/s"]
    show(f"{answers} answers at {rate:g} a second: {model}", columns, rows, json_file)


async def _all(address: str, rate: float, answers: int) -> list[list[object]]:
    service = tinker.ServiceClient(base_url=address, api_key=KEY["X-API-Key"])
    async with httpx.AsyncClient(base_url=address, headers=KEY, timeout=300) as http:
        model = (await http.get("/v1/models")).json()["data"][0]["id"]
        await _visit(http, model, 0)  # the tokenizer is loaded, the kernels are warm
        rows: list[list[object]] = []
        for name in ("nobody", "training", "training and rollouts"):
            neighbours = Neighbours(service, model)
            async with _beside(neighbours, name):
                began = time.perf_counter()
                waits = await _crowd(http, model, rate, answers)
                seconds = time.perf_counter() - began
            told = milliseconds([wait.first for wait in waits]) + milliseconds([wait.whole for wait in waits])
            rows.append([name, *told, neighbours.trained / seconds, neighbours.rolled / seconds])
    return rows


@asynccontextmanager
async def _beside(neighbours: Neighbours, name: str) -> AsyncIterator[None]:
    """Neighbours at work, who have begun before the clock does."""
    works = [neighbours.train] * ("training" in name) + [neighbours.roll_out] * ("rollouts" in name)
    tasks = [asyncio.create_task(work()) for work in works]
    if tasks:
        await asyncio.sleep(5)
        neighbours.trained = neighbours.rolled = 0
    yield
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _crowd(http: httpx.AsyncClient, model: str, rate: float, answers: int) -> list[Wait]:
    gaps = random.Random(0)
    visits = []
    for number in range(answers):
        visits.append(asyncio.create_task(_visit(http, model, number)))
        await asyncio.sleep(gaps.expovariate(rate))
    return await asyncio.gather(*visits)


async def _visit(http: httpx.AsyncClient, model: str, number: int) -> Wait:
    """One streamed answer."""
    question = f"Question {number}: where is my parcel? It was sent {number + 2} days ago from Lisbon."
    body = {"model": model, "messages": [{"role": "user", "content": question}], "stream": True, "seed": number}
    began, first = time.perf_counter(), None
    async with http.stream("POST", "/v1/chat/completions", json={**body, "max_tokens": ANSWER_TOKENS}) as answer:
        async for line in answer.aiter_lines():
            event = json.loads(line[6:]) if line.startswith("data: {") else {"choices": []}
            if first is None and any(choice["delta"].get("content") for choice in event["choices"]):
                first = time.perf_counter() - began
    whole = time.perf_counter() - began
    return Wait(whole if first is None else first, whole)
