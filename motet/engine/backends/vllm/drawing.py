"""What the vLLM sampler asks of a vLLM, wherever it runs: samples to draw in, news of them out.

One request of ours with G samples is G of these: vLLM gives sample i of a seeded request the seed + i, so that seed 5's
second sample would be seed 6's first. Here each has a seed of its own.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from motet.engine.types import TopLogprobs
from motet.errors import MotetError


@dataclass(frozen=True)
class Adapter:
    """A version as vLLM has it: name and path are its own for ever, since vLLM's prefix cache goes by both."""

    name: str
    folder: Path
    number: int  # from 1 on; vLLM wants one, and its caches do not look at it


@dataclass(frozen=True)
class ToDraw:
    """One sample to draw. `key` names it, and no other of this process."""

    key: str
    prompt: list[int]
    temperature: float
    top_k: int  # -1: off
    top_p: float
    seed: int
    max_tokens: int
    stop_tokens: tuple[int, ...]
    likeliest: int  # tokens to tell of at each place that is drawn
    prompt_likeliest: int | None  # at each place of the prompt; None: nothing is told of the prompt
    adapter: Adapter | None


@dataclass(frozen=True)
class Told:
    """A token that was drawn, or stood in the prompt; the likeliest at its place, (1, k) or one more."""

    token: int
    logprob: float
    top: TopLogprobs


@dataclass
class News:
    """What there is to tell of a sample since the last time."""

    key: str
    tokens: list[Told] = field(default_factory=list)
    prompt: list[Told] = field(default_factory=list)  # of its places from 1 on; once
    cached_tokens: int = 0  # of the prompt, whose keys stood in the cache
    ended: bool = False  # vLLM has no more to tell
    fault: MotetError | None = None


class Drawer(Protocol):
    """A vLLM. The sampling lane alone calls it."""

    def load(self, adapter: Adapter) -> None:
        """Have an adapter ready for samples. EngineFault where vLLM does not take it."""
        ...

    def unload(self, adapter: Adapter) -> None:
        """No sample will ask for it again, unless it is loaded once more."""
        ...

    def begin(self, sample: ToDraw) -> None: ...

    def abort(self, keys: list[str]) -> None: ...

    def step(self) -> list[News]:
        """What is new; empty where there is nothing to do, or nothing yet: then whoever opened it is woken."""
        ...

    def sizes(self) -> dict[str, float]: ...

    def close(self) -> None: ...


def seed_of(seed: int, index: int) -> int:
    """The seed of one sample of a request, 0 to 2^63 - 1."""
    digest = hashlib.blake2b(f"{seed}:{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
