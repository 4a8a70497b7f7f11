"""The engine's vocabulary: what goes in and what comes out, as plain data.

Shapes, one legend for the whole project: B sequences, T tokens in a sequence, N packed tokens, D model
width, H query heads, K key/value heads, E head width, V vocabulary, R LoRA rank, S slots, X experts;
P problems, G members of a group. Arrays here are numpy, so that the HTTP process needs no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from motet.errors import BadRequest

IntArray = NDArray[np.integer]
FloatArray = NDArray[np.floating]

LossName = Literal["cross_entropy", "importance_sampling", "ppo", "cispo", "dro", "gspo"]
StopReason = Literal["stop", "length"]
Dtype = Literal["auto", "float32", "bfloat16"]  # auto: a short probe of the machine
SamplerName = Literal["local", "vllm"]  # what draws: our own engine, or vLLM
Lane = Literal["sampling", "training"]
PolicyName = Literal["fair", "throughput", "first-come"]

MOST_PRIORITY = 1000  # and one over it is the least
LEAST_SEED, MOST_SEED = -(2**63), 2**63 - 1  # of a run: what torch's generator and a database take


def as_float32(value: float | FloatArray) -> NDArray[np.float32]:
    """Numbers as the kernels will have them: infinite where they are too large, 0 where they are too small."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(value, np.float64).astype(np.float32)


@dataclass(frozen=True)
class AdapterShape:
    """What an adapter is made of. Set by the run's owner at creation; never changes."""

    rank: int = 16
    alpha: float = 32.0  # the adapter's output is scaled by alpha / rank
    attention: bool = True  # q, k, v, o
    mlp: bool = True  # gate, up, down
    unembed: bool = False  # the output head

    @property
    def scale(self) -> float:
        return self.alpha / self.rank


@dataclass(frozen=True)
class Datum:
    """One training example as the trainer takes it. Set by the client.

    tokens T int; targets T or (T, k) int; every other array has the shape of `targets`, float32.
    """

    tokens: IntArray
    targets: IntArray
    weights: FloatArray | None = None  # cross_entropy only
    logprobs: FloatArray | None = None  # of the sampling policy; the RL losses
    advantages: FloatArray | None = None  # the RL losses
    sequence_ratio_mask: FloatArray | None = None  # gspo only
    clip_low_threshold: FloatArray | None = None  # per-token bounds win over the config's
    clip_high_threshold: FloatArray | None = None


@dataclass(frozen=True)
class Loss:
    """Which loss, with its own numbers (clip bounds, beta). Set by the client, per request."""

    name: LossName = "cross_entropy"
    config: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class AdamW:
    """One optimizer step with torch's semantics; defaults are the API's. Set by the client."""

    learning_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0  # decoupled
    grad_clip_norm: float = 0.0  # 0 is off


@dataclass(frozen=True)
class SamplingParams:
    """How to draw. Set by the client."""

    max_tokens: int | None = None  # None: until the context is full
    temperature: float = 1.0  # 0 is greedy
    top_k: int = -1  # -1 is off
    top_p: float = 1.0
    seed: int | None = None  # None: the engine draws one
    stop_tokens: tuple[int, ...] | None = None  # None: the base model's end tokens; () stops never
    stop_strings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """What a run may have of device time while others want it too. Set by the client and the service at creation."""

    priority: float = 1.0  # against the other runs of its share
    share: str | None = None  # a group of runs, which divides with the other groups; None: the common one
    share_priority: float = 1.0  # of that group; the last one told counts

    def __post_init__(self) -> None:
        """BadRequest where a priority is no number that others can be weighed against."""
        for name, value in (("priority", self.priority), ("share_priority", self.share_priority)):
            if not 1 / MOST_PRIORITY <= value <= MOST_PRIORITY:
                raise BadRequest(
                    f"{name} is {value}: choose 1/{MOST_PRIORITY} to {MOST_PRIORITY}; 2 is twice the device time of 1"
                )


@dataclass(frozen=True)
class Payer:
    """Whose device time a piece of work takes: a run's where there is one, else a share's (None: the common one).

    serving: somebody waits for it; it is the share's, and comes first within its part of device time.
    """

    run: str | None = None
    share: str | None = None
    serving: bool = False


@dataclass(frozen=True)
class TrainResult:
    """What a forward or forward_backward gives. logprobs: one array a datum, of its targets' shape."""

    logprobs: list[FloatArray]
    metrics: dict[str, float]  # keys are "name:reduction"; always has "loss:sum"


@dataclass(frozen=True)
class StepResult:
    """What an optimizer step gives: grad_norm before clipping, learning rate, and so on."""

    metrics: dict[str, float]
    step: int  # steps that the run has taken, this one included


@dataclass(frozen=True)
class FreshAdapter:
    """Where a run began: with weights drawn from a seed."""

    shape: AdapterShape
    seed: int


@dataclass(frozen=True)
class SavedRun:
    """Where a run began, or stood last: in a folder that SaveRun wrote, taken with or without its optimizer state."""

    folder: str
    optimizer: bool = True


@dataclass(frozen=True)
class JournaledStep:
    """A step that was taken: the file of its gradient, and its settings."""

    file: str
    adam: AdamW


@dataclass(frozen=True)
class RunState:
    """Where a restored run stands."""

    shape: AdapterShape
    step: int
    has_gradient: bool  # its snapshot was taken while a gradient was accumulating, and no step came after it


@dataclass(frozen=True)
class TopLogprobs:
    """k tokens at each place, with their log-probabilities: both (places, k); an empty cell is token 0, -99999."""

    tokens: IntArray
    logprobs: FloatArray


@dataclass(frozen=True)
class GivenTokens:
    """Tokens to score at places of a prompt: both (cells), places ascending and from 1 on."""

    places: IntArray
    tokens: IntArray


@dataclass(frozen=True)
class PromptQuery:
    """What to tell of a prompt, at each place but the first, which follows nothing. Set by the client."""

    logprobs: bool = False  # of the prompt's own tokens
    top: int = 0  # so many of the likeliest tokens at each place
    last: int | None = None  # logprobs and top of so many places at the end; None: of all
    given: GivenTokens | None = None
    draws: int = 0  # so many tokens drawn at each place, with replacement and at the request's temperature


@dataclass(frozen=True)
class PromptScores:
    """The answer to a PromptQuery, None where it did not ask. Never tempered."""

    logprobs: FloatArray | None = None  # (T); NaN where nothing is told
    top: TopLogprobs | None = None  # (T, top)
    given: FloatArray | None = None  # (cells)
    drawn: TopLogprobs | None = None  # (T - 1, draws), from place 1 on


@dataclass(frozen=True)
class SampledSequence:
    """One sample. The stop token or string, where one ended it, is included in `tokens`."""

    tokens: IntArray
    logprobs: FloatArray  # of the distribution it was drawn from, tempered
    stop_reason: StopReason
    top: TopLogprobs | None = None


@dataclass(frozen=True)
class SamplePart:
    """One more token of one sample, while the others are on their way."""

    index: int  # of the sample
    token: int
    logprob: float
    top: TopLogprobs | None = None  # (1, top)


@dataclass(frozen=True)
class SampleResult:
    """All samples of one request."""

    sequences: list[SampledSequence]
    version_number: int  # of the version that wrote it; 0 is the base model
    prompt: PromptScores = PromptScores()
    prompt_cache_hit_tokens: int = 0


@dataclass(frozen=True)
class PublishResult:
    """A version stands. `seconds` is the time the copy and the turn of the pointer took."""

    version: str
    number: int  # 1, 2, ... within its run
    content_hash: str
    seconds: float


@dataclass(frozen=True)
class BaseInfo:
    """What the engine says of its base model once it is warm."""

    name: str
    folder: str  # where the tokenizer lies
    vocabulary: int
    context: int  # tokens, prompt and answer together
    dtype: str
    parameters: int
    end_tokens: tuple[int, ...]
    max_rank: int
    base_hash: str  # of the weight files and the configuration
    fingerprint: str  # of all that bits depend on: two engines with equal ones compute the same gradient
    sampler: SamplerName = "local"  # local: it draws with the very weights and kernels that are trained on
