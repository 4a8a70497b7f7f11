"""The commands under `motet bench`. Light to import: torch is loaded when one is run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from motet.engine.types import Dtype

app = typer.Typer(help="Measure this machine.", no_args_is_help=True)
Json = Annotated[Path | None, typer.Option("--json", help="Write the rows to this file too.")]
Model = Annotated[str, typer.Option(help="A base model: a name or a folder.")]
DtypeOption = Annotated[Dtype, typer.Option(help="auto, float32 or bfloat16.")]
DEFAULT = "SmolLM2-135M-Instruct"


@app.command()
def sampler(
    model: Model = DEFAULT,
    dtype: DtypeOption = "bfloat16",
    context: Annotated[int, typer.Option(help="Keys that every sequence has.")] = 256,
    rank: Annotated[int, typer.Option(help="Rank of the adapters.")] = 16,
    sequences: Annotated[str, typer.Option(help="Numbers of sequences, by commas.")] = "1,8,64,128",
    json_file: Json = None,
) -> None:
    """Milliseconds a decode step: the base model, one adapter, eight mixed."""
    from motet.bench.sampler import bench_sampler

    bench_sampler(model, dtype, context, rank, [int(n) for n in sequences.split(",")], json_file)


@app.command()
def trainer(
    model: Model = DEFAULT,
    dtype: DtypeOption = "bfloat16",
    tokens: Annotated[int, typer.Option(help="Tokens of each of the eight runs.")] = 256,
    length: Annotated[int, typer.Option(help="Tokens of a datum.")] = 128,
    rank: Annotated[int, typer.Option(help="Rank of the adapters.")] = 16,
    json_file: Json = None,
) -> None:
    """One run of 8 n tokens, eight mixed runs of n, eight one after another."""
    from motet.bench.trainer import bench_trainer

    bench_trainer(model, dtype, tokens, length, rank, json_file)


@app.command()
def step(
    model: Model = DEFAULT,
    dtype: DtypeOption = "bfloat16",
    rank: Annotated[int, typer.Option(help="Rank of the adapter.")] = 16,
    tries: Annotated[int, typer.Option(help="Steps measured, after one to warm up; the median is told.")] = 3,
    plain: Annotated[bool, typer.Option(help="Also by plain code over transformers and peft.")] = False,
    json_file: Json = None,
) -> None:
    """One RL step of 64 samples: here, and with --plain by `transformers` and `peft` (minutes on a slow machine)."""
    from motet.bench.step import bench_step

    bench_step(model, dtype, rank, tries, plain, json_file)


@app.command()
def memory(
    model: Model = DEFAULT,
    dtype: DtypeOption = "bfloat16",
    tokens: Annotated[int, typer.Option(help="Tokens of the step.")] = 1024,
    length: Annotated[int, typer.Option(help="Tokens of a datum.")] = 128,
    rank: Annotated[int, typer.Option(help="Rank of the adapter.")] = 16,
    json_file: Json = None,
) -> None:
    """Peak memory of a training step: a LoRA run here, and full fine-tuning of the same base model."""
    from motet.bench.trainer import bench_memory

    bench_memory(model, dtype, tokens, length, rank, json_file)


@app.command()
def concurrency(
    file: Annotated[Path, typer.Argument(help="An experiment file; its experiments are what is run.")],
    levels: Annotated[str, typer.Option(help="Experiments at a time, by commas.")] = "1,2,4,8",
    cold: Annotated[bool, typer.Option(help="Also serially with a cold start each.")] = False,
    split: Annotated[bool, typer.Option(help="Also with a core for each lane.")] = False,
    ablation: Annotated[bool, typer.Option(help="Also with each kind of sharing given up.")] = False,
    json_file: Json = None,
) -> None:
    """The same experiments serially and N at a time: makespan, steps, idle lanes, and whether rewards agree."""
    from motet.bench.concurrency import bench_concurrency, ways_for

    numbers = [int(n) for n in levels.split(",")]
    bench_concurrency(file, ways_for(numbers, cold, split, ablation), json_file)


@app.command()
def published(
    file: Annotated[Path, typer.Argument(help="One of examples/published, or of the same environment.")],
    levels: Annotated[str, typer.Option(help="Experiments at a time, by commas; 1 is always among them.")] = "1,2,4,8",
    model: Annotated[str | None, typer.Option(help="A base model in place of the file's.")] = None,
    small: Annotated[bool, typer.Option("--small", help="One step on two problems: does it run?")] = False,
    device: Annotated[str | None, typer.Option(help="Of the servers: cpu, cuda, cuda:1.", show_default="cpu")] = None,
    base_url: Annotated[str | None, typer.Option(help="A Motet server for all levels, in place of one each.")] = None,
    json_file: Json = None,
) -> None:
    """The published experiment again: time until the last finishes, and a step, beside the published figures."""
    from motet.bench.published import Asked, bench_published

    flags = ("--device", device) if device else ()
    numbers = [int(n) for n in levels.split(",")]
    bench_published(Asked(file, numbers, model, small, flags, base_url), json_file)


@app.command()
def requests(model: Model = "pocket", json_file: Json = None) -> None:
    """Milliseconds until each kind of request is answered, its place in the journal included."""
    from motet.bench.service import bench_requests

    bench_requests(model, json_file)


@app.command()
def recovery(
    model: Model = DEFAULT,
    runs: Annotated[int, typer.Option(help="Runs that train.")] = 32,
    steps: Annotated[int, typer.Option(help="Steps of each before the kill.")] = 4,
    json_file: Json = None,
) -> None:
    """Journal bytes and seconds a step; kill -9 of both processes; seconds until every run goes on."""
    from motet.bench.service import bench_recovery

    bench_recovery(model, runs, steps, json_file)


@app.command()
def load(
    model: Model = "pocket",
    runs: Annotated[int, typer.Option(help="Runs that train at the same time.")] = 128,
    samples: Annotated[int, typer.Option(help="Samples that wait at the same time.")] = 512,
    json_file: Json = None,
) -> None:
    """A crowd through the real SDK: no error, and heartbeats answered throughout."""
    from motet.bench.load import bench_load

    bench_load(model, runs, samples, json_file)


@app.command()
def serving(
    model: Model = DEFAULT,
    rate: Annotated[float, typer.Option(help="Answers asked for a second.")] = 0.5,
    answers: Annotated[int, typer.Option(help="Answers of each line.")] = 40,
    json_file: Json = None,
) -> None:
    """Time to first token through OpenAI's API: alone, beside training, beside training and rollouts."""
    from motet.bench.serving import bench_serving

    bench_serving(model, rate, answers, json_file)


@app.command()
def policies(
    model: Model = "pocket",
    dtype: DtypeOption = "auto",
    runs: Annotated[int, typer.Option(help="Runs at the same time.")] = 8,
    steps: Annotated[int, typer.Option(help="Steps of each.")] = 3,
    seconds: Annotated[float, typer.Option(help="How long priorities are measured.")] = 4.0,
    json_file: Json = None,
) -> None:
    """The same runs under each policy: who finishes when, how long a lane waits, whether priorities are kept."""
    from motet.bench.policies import bench_policies

    bench_policies(model, dtype, runs, steps, seconds, json_file)
