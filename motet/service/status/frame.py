"""One frame of `motet status`."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from motet.service.status.reading import Pace, Reading

MIB = 1024**2
MOST_RUNS = 20
QUEUES = {  # what is shown, and its number in the engine
    "training requests": "train_requests_waiting",
    "of so many runs": "runs_waiting",
    "sampling requests": "sample_requests_waiting",
    "sequences in work": "sequences",
}


def frame(now: Reading, pace: Pace) -> RenderableType:
    """Everything on one screen."""
    sides = Table.grid(padding=(0, 3))
    sides.add_row(_pace(pace), _queues(now), _memory(now))
    return Group(_head(now), Text(), sides, Text(), _tenants(now, pace), Text(), _runs(now, pace))


def _head(now: Reading) -> Text:
    told = now.told
    head = Text(f"Motet {told['version']}  {told['base_model']} ({told['dtype']})  up {_time(told['up_seconds'])}  ")
    if told["stopping"]:
        return head.append("stopping", style="yellow")
    return head.append("engine up", style="green") if told["engine_up"] else head.append("engine away", style="red")


def _pace(pace: Pace) -> Table:
    table = Table("tokens/s", "", box=None, pad_edge=False)
    for kind, rate in pace.tokens.items():
        table.add_row(kind, f"{rate:,.0f}")
    table.add_row()
    table.add_row("busy", "")
    for lane, share in pace.lanes.items():
        bar = Table.grid(padding=(0, 1))
        bar.add_row(ProgressBar(total=1.0, completed=min(share, 1.0), width=10), _percent(share))
        table.add_row(lane, bar)
    return table


def _queues(now: Reading) -> Table:
    table = Table("queues", "", box=None, pad_edge=False)
    for shown, name in QUEUES.items():
        table.add_row(shown, f"{now.engine(name):,.0f}")
    table.add_row("promises", f"{now.service('requests_pending'):,.0f}")
    table.add_row("held for order", f"{now.service('requests_held_for_order'):,.0f}")
    return table


def _memory(now: Reading) -> Table:
    table = Table("memory", "MiB", box=None, pad_edge=False)
    for process, size in now.told["memory_bytes"].items():
        table.add_row(f"{process} process", f"{size / MIB:,.0f}")
    table.add_row("adapters", f"{now.engine('adapter_bytes') / MIB:,.1f}")
    table.add_row("results kept", f"{now.service('results_kept_bytes') / MIB:,.1f}")
    blocks = now.engine("kv_blocks")
    table.add_row("KV cache promised", _percent(now.engine("kv_blocks_promised") / blocks if blocks else 0.0))
    return table


def _tenants(now: Reading, pace: Pace) -> Table:
    table = Table("tenant", "sessions", "runs", "samplers", "of the time", box=None, pad_edge=False)
    for one in now.told["tenants"]:
        counts = (str(one[kind]) for kind in ("sessions", "runs", "samplers"))
        table.add_row(Text(one["tenant"]), *counts, _percent(pace.tenants[one["tenant"]]))
    return table


def _runs(now: Reading, pace: Pace) -> Table:
    """The busiest first."""
    runs = sorted(now.told["runs"], key=lambda run: -pace.runs[run["run"]])
    table = Table("run", "name", "of the time", "last request", box=None, pad_edge=False)
    for run in runs[:MOST_RUNS]:
        name = "" if run["name"] == run["run"] else run["name"]
        table.add_row(run["run"], Text(name), _percent(pace.runs[run["run"]]), run["touched"][11:19])
    if len(runs) > MOST_RUNS:
        table.add_row(f"and {len(runs) - MOST_RUNS} more")
    return table


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def _time(seconds: float) -> str:
    minutes, hours = int(seconds // 60) % 60, int(seconds // 3600)
    return f"{hours}:{minutes:02}:{int(seconds) % 60:02}"
