"""What the service costs: milliseconds a request, journal bytes a step, seconds to recover."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from motet.bench.common import show
from motet.bench.requests import Run, Visit
from motet.bench.server import KillableServer

TRIES = 200
MIB = 1024.0**2


def bench_requests(model: str, json_file: Path | None) -> None:
    """Milliseconds until each kind of request is answered; one that is accepted is in the journal by then."""
    with TemporaryDirectory(prefix="motet-bench-") as folder:
        server = KillableServer(model, Path(folder))
        server.start()
        with server.client() as http:
            visit = Visit(http)
            run, sampler = visit.create_run(), visit.create_sampler(0)
            prompt = {"chunks": [{"type": "encoded_text", "tokens": list(range(3, 35))}]}
            done = run.forward_backward(1, 16)
            visit.read(done)
            numbers = iter(range(10_000))

            def sample() -> Any:
                body = {"sampling_session_id": sampler, "seq_id": next(numbers), "prompt": prompt, "num_samples": 1}
                return visit.post("asample", **body, sampling_params={"max_tokens": 1, "seed": 1})

            kinds: dict[str, Callable[[], object]] = {
                "healthz": lambda: visit.get("healthz"),
                "session_heartbeat": lambda: visit.post("session_heartbeat", session_id=visit.session),
                "get_info": lambda: visit.post("get_info", model_id=run.id),
                "retrieve_future (done)": lambda: visit.read(done),
                "optim_step (accepted)": run.step,
                "forward_backward (accepted)": lambda: run.forward_backward(1, 16),
                "asample (accepted)": sample,
                "asample (accepted, drawn, read)": lambda: visit.read(sample()),
            }
            rows = [[name, *_milliseconds(visit, kind)] for name, kind in kinds.items()]
        server.stop()
    show(f"Requests, one client: {model}", ["request", "median ms", "95th ms"], rows, json_file)


def _milliseconds(visit: Visit, ask: Callable[[], object]) -> list[float]:
    """Median and 95th percentile. What is on its way is waited for outside the clock."""
    seconds = []
    for _ in range(TRIES):
        began = time.perf_counter()
        answer = ask()
        seconds.append(time.perf_counter() - began)
        if isinstance(answer, dict) and "request_id" in answer:
            visit.read(answer)
    return [1e3 * median(seconds), 1e3 * quantiles(seconds, n=20)[-1]]


def bench_recovery(model: str, runs: int, steps: int, json_file: Path | None) -> None:
    """Many runs take some steps; then both processes are killed, and every run is asked for its next step."""
    with TemporaryDirectory(prefix="motet-bench-") as folder:
        server = KillableServer(model, Path(folder))
        server.start()
        with server.client() as http:
            visit = Visit(http)
            own = [visit.create_run() for _ in range(runs)]
            seconds = _train(visit, own, steps)
            gradients = _bytes(server.data, "runs/*/gradients/*")
            catalog = _bytes(server.data, "catalog.sqlite*") + _bytes(server.data, "bodies/*")
            for run in own:
                run.forward_backward(1, 32)  # accepted, perhaps not begun
            server.kill()
            ready = server.start()
            began = time.perf_counter()
            for promise in [run.step() for run in own]:
                visit.read(promise)
            recovered = time.perf_counter() - began
        server.stop()
    columns = ["runs", "steps each", "s a step", "gradient MiB a step", "catalog MiB in all", "ready s", "recovered s"]
    row = [runs, steps, seconds / (runs * steps), gradients / MIB / (runs * min(steps, 8)), catalog / MIB, ready]
    show(f"kill -9 and recovery: {model}", columns, [[*row, recovered]], json_file)


def _train(visit: Visit, runs: list[Run], steps: int) -> float:
    began = time.perf_counter()
    for _ in range(steps):
        promises = [promise for run in runs for promise in (run.forward_backward(1, 32), run.step())]
        for promise in promises:
            visit.read(promise)
    return time.perf_counter() - began


def _bytes(folder: Path, pattern: str) -> int:
    return sum(file.stat().st_size for file in folder.glob(pattern))
