"""What the sampler knows of a request and of each of its samples. State only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from motet.engine.adapters.run import Version
from motet.engine.ops.lora import AdapterTensors
from motet.engine.sampler.prompt import PromptReport
from motet.engine.turns.accounts import Account
from motet.engine.types import IntArray, Payer, SampledSequence, SamplePart, SamplingParams, StopReason, TopLogprobs
from motet.errors import MotetError

BASE_OWNER = "base"


@dataclass(eq=False)
class Sequence:
    """One sample on its way. `cached` tokens of it stand in `blocks`; the rest must still be run."""

    group: Group
    index: int
    tokens: list[int]
    cached: int = 0
    blocks: list[int] = field(default_factory=list)
    remembered: int = 0  # full blocks whose prefix the block table knows
    digest: bytes = b""  # of the last of those
    logprobs: list[float] = field(default_factory=list)
    top_tokens: list[IntArray] = field(default_factory=list)
    top_logprobs: list[np.ndarray] = field(default_factory=list)
    text_tail: bytes = b""  # the last bytes written, for stop strings

    def newest(self) -> SamplePart:
        """The token that was drawn last."""
        top = None
        if self.top_tokens:
            top = TopLogprobs(self.top_tokens[-1][None], self.top_logprobs[-1][None])
        return SamplePart(self.index, self.tokens[-1], self.logprobs[-1], top)

    def result(self, reason: StopReason) -> SampledSequence:
        """The finished sample."""
        written = np.asarray(self.tokens[len(self.group.prompt) :], np.int32)
        top = TopLogprobs(np.stack(self.top_tokens), np.stack(self.top_logprobs)) if self.top_tokens else None
        return SampledSequence(written, np.asarray(self.logprobs, np.float32), reason, top)


@dataclass(eq=False)
class Group:
    """One request: a prompt and its samples, on the version it began with."""

    prompt: IntArray
    params: SamplingParams
    seed: int
    num_samples: int
    max_tokens: int
    stop_tokens: frozenset[int]
    stop_bytes: tuple[bytes, ...]
    version: Version | None
    report: PromptReport
    top_sample: int
    on_done: Callable[[Group], None]
    payer: Payer = Payer()
    on_part: Callable[[SamplePart], None] | None = None
    account: Account = field(default_factory=Account)  # the payer's; set by the scheduler
    digests: list[bytes] = field(default_factory=list)  # of the prompt's full blocks, its last token left out
    lead: Sequence | None = None  # runs the prompt; its blocks are what the members share
    unborn: int = 0  # members that wait for the lead, or for space
    living: list[Sequence] = field(default_factory=list)
    finished: dict[int, SampledSequence] = field(default_factory=dict)
    cache_hit: int = 0
    cancelled: bool = False
    fault: MotetError | None = None  # why it cannot go on

    @property
    def owner(self) -> str:
        """Whose cached keys these are: no two versions ever share one."""
        return BASE_OWNER if self.version is None else self.version.key

    @property
    def adapter(self) -> AdapterTensors | None:
        return None if self.version is None else self.version.adapter


@dataclass(frozen=True, eq=False)
class Chunk:
    """Tokens [start, start + count) of a sequence, to be run in one step.

    A member's chunk is its last token, and draws the next. A lead's chunk is a piece of the prompt, and scores it
    from the place on that the request is told of: its row i tells of place i + 1.
    """

    sequence: Sequence
    start: int
    count: int

    @property
    def draws(self) -> bool:
        return self.sequence.group.lead is not self.sequence

    @property
    def scores(self) -> bool:
        return not self.draws and self.start + self.count >= self.sequence.group.report.first


@dataclass(frozen=True)
class BlockCopy:
    """A partly filled block gets a twin, for a member to write on."""

    source: int
    target: int


@dataclass(frozen=True)
class StepPlan:
    """One step: first the copies, then all chunks in one batch."""

    copies: list[BlockCopy]
    chunks: list[Chunk]
