"""The engine's settings: few, each said once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from motet.engine.types import Dtype, PolicyName
from motet.errors import BadConfig

GIB = 1024**3
MIXINGS = ("sampling", "training", "cores")
"""One batch of many versions; one pass of many runs; one lane stepping in between the layers of the other's pass."""


@dataclass(frozen=True)
class EngineSettings:
    """Everything one may choose about an engine. The defaults suit a laptop and the default base model."""

    model: str = "SmolLM2-135M-Instruct"  # a folder, a hub name, or a name this package knows
    data_dir: Path = Path("motet-data")  # runs and versions that do not fit in memory go below it
    dtype: Dtype = "auto"
    device: str = "cpu"
    threads: int = 0  # cores in all; 0: every core there is
    lanes: Literal["shared", "split"] = "shared"  # sampler and trainer share all cores, or have half each
    max_rank: int = 128
    kv_cache_bytes: int = GIB
    host_bytes: int = 4 * GIB  # runs and versions in memory; the least recently used go to disk
    pass_rows: int = 2048  # token budget of one training pass
    prompt_rows: int = 256  # prompt tokens in one sampling step
    policy: PolicyName = "fair"  # whose turn it is: fair, throughput or first-come
    longest_turn_wait: float = 30.0  # seconds after which whoever had no turn comes first, under every policy
    max_waiting: int = 4096  # sampling requests in the queue; more are told to come again
    apart: tuple[str, ...] = ()  # for benchmarks: the kinds of sharing (MIXINGS) to give up

    def __post_init__(self) -> None:
        """BadConfig where a kind of sharing has no such name."""
        if unknown := set(self.apart) - set(MIXINGS):
            raise BadConfig(f"apart knows {', '.join(MIXINGS)}, not {', '.join(sorted(unknown))}")
