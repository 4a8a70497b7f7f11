"""The command `motet plan memory`. Light to import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from motet.planner.memory import Bytes

BaseDtype = Literal["float32", "bfloat16", "float16", "int8", "nf4"]


def memory_with(locate: Callable[[str], str]) -> Callable[..., None]:
    """The command; `locate` gives the folder of a base model that comes with Motet, and any other name as it is."""

    def memory(
        model: Annotated[str, typer.Argument(help="A base model: a name, or a folder (config.json is enough).")],
        runs: Annotated[int, typer.Option(min=1, help="Runs that train.")] = 8,
        rank: Annotated[int, typer.Option(min=1, help="Of their adapters, on attention and MLP.")] = 16,
        unembed: Annotated[bool, typer.Option("--unembed", help="Adapters on the head too.")] = False,
        sequences: Annotated[int, typer.Option(min=1, help="Sequences that are sampled at a time.")] = 64,
        context: Annotated[int, typer.Option(min=1, help="Tokens of each.")] = 2048,
        pass_rows: Annotated[int, typer.Option(min=1, help="Tokens of a training pass on one device.")] = 2048,
        checkpointing: Annotated[bool, typer.Option("--checkpointing", help="Activations computed again.")] = False,
        dtype: Annotated[BaseDtype, typer.Option(help="Of the base model.")] = "bfloat16",
        device: Annotated[Literal["cpu", "cuda"], typer.Option(help="Kind of device.")] = "cpu",
        training_ranks: Annotated[int, typer.Option(min=1, help="Devices that the base model is sharded over.")] = 1,
        sampling_devices: Annotated[int, typer.Option(min=0, help="Devices for sampling alone; 0: the same.")] = 0,
        sampler_split: Annotated[int, typer.Option(min=1, help="Devices that one sampler is cut over.")] = 1,
        device_gib: Annotated[float | None, typer.Option(help="What a device has; more is refused.")] = None,
        set_aside_gib: Annotated[float, typer.Option(min=0, help="For process, driver and allocator.")] = 0.5,
    ) -> None:
        """Bytes on each device, part by part; exit code 1 where they do not fit."""
        from motet.planner.memory import GIB, Load, Placement, bytes_of, most_runs
        from motet.planner.sizes import read_sizes

        sizes = read_sizes(locate(model))
        load = Load(runs, rank, sequences, context, pass_rows, dtype, unembed, checkpointing)
        placement = Placement(training_ranks, sampling_devices, sampler_split, packed_head=device == "cpu")
        set_aside = round(set_aside_gib * GIB)
        devices = bytes_of(sizes, load, placement, set_aside)
        typer.echo(f"{model}: {sizes.parameters:,} parameters, {sizes.adapter(rank, unembed):,} in an adapter")
        _show(devices, runs, rank)
        if device_gib is None:
            return
        room = most_runs(sizes, load, placement, device_gib * GIB, set_aside)
        over = max(one.total for one in devices) / GIB - device_gib
        if over > 0:
            hint = f"{room} runs would" if room > 0 else "not even one run would: lower sequences, context or pass rows"
            typer.echo(f"does not fit: {over:.2f} GiB more than {device_gib:g}; {hint}", err=True)
            raise typer.Exit(1)
        typer.echo(f"fits into {device_gib:g} GiB; up to {room} runs would")

    return memory


def _show(devices: Sequence[Bytes], runs: int, rank: int) -> None:
    from rich.console import Console
    from rich.table import Table

    from motet.planner.memory import GIB, VERSIONS

    heads = [f"{one.device}, GiB" if one.device else "GiB" for one in devices]
    table = Table("on each device", *heads, box=None, pad_edge=False, header_style="bold")
    rows = {
        "base model": [one.base for one in devices],
        "layers brought together": [one.gathered for one in devices],
        f"{runs} runs of rank {rank}": [one.runs for one in devices],
        f"their versions, {VERSIONS} each": [one.versions for one in devices],
        "keys and values": [one.keys_and_values for one in devices],
        "a training pass": [one.training_pass for one in devices],
        "set aside": [one.set_aside for one in devices],
        "together": [one.total for one in devices],
    }
    for what, counts in rows.items():
        if any(counts):
            table.add_row(what, *(f"{count / GIB:.3f}" if count else "" for count in counts))
    Console().print(table)
