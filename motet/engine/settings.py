"""The engine's settings: few, each said once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from motet.engine.types import Dtype, PolicyName, SamplerName
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
    sampler: SamplerName = "local"  # what draws; vllm wants an install of its own, and what is trained stays local
    threads: int = 0  # cores in all; 0: every core there is
    lanes: Literal["shared", "split"] = "shared"  # sampler and trainer share all cores, or have half each
    max_rank: int = 128
    kv_cache_bytes: int = GIB
    host_bytes: int = 4 * GIB  # runs and versions in memory; the least recently used go to disk
    pass_rows: int = 2048  # token budget of one training pass
    prompt_rows: int = 256  # prompt tokens in one sampling step
    policy: PolicyName = "fair"  # whose turn it is: fair, throughput or first-come
    longest_turn_wait: float = 30.0  # seconds after which whoever had no turn comes first, under every policy
    serving_part: float = 0.5  # of device time, within which answers to /v1 come before everything else
    max_waiting: int = 4096  # sampling requests in the queue; more are told to come again
    apart: tuple[str, ...] = ()  # for benchmarks: the kinds of sharing (MIXINGS) to give up

    def __post_init__(self) -> None:
        """BadConfig for what can be seen at once, before anything heavy is imported or started."""
        cores = len(os.sched_getaffinity(0))
        if not 0 <= self.threads <= cores:
            raise BadConfig(f"threads is {self.threads} and this machine has {cores} cores: choose 0 (all) to {cores}")
        if self.lanes == "split" and (self.threads or cores) < 2:
            raise BadConfig("lanes = split needs at least two cores: choose shared")
        if (Path(self.model).is_absolute() or self.model.startswith(".")) and not Path(self.model).is_dir():
            raise BadConfig(f"there is no folder {self.model}: choose another model")
        for name in ("max_rank", "kv_cache_bytes", "host_bytes", "pass_rows", "prompt_rows", "max_waiting"):
            if getattr(self, name) < 1:
                raise BadConfig(f"{name} is {getattr(self, name)}: choose 1 or more")
        if not 0 <= self.serving_part <= 1:
            raise BadConfig(f"serving_part is {self.serving_part}: choose a part of device time, 0 to 1")
        if not self.longest_turn_wait > 0:
            raise BadConfig(f"longest_turn_wait is {self.longest_turn_wait}: choose seconds above 0")
        if unknown := set(self.apart) - set(MIXINGS):
            raise BadConfig(f"apart knows {', '.join(MIXINGS)}, not {', '.join(sorted(unknown))}")
