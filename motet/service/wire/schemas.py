"""The JSON bodies of the Tinker API, as SDK 0.38 sends them, and the records that listings give.

Only the envelope is checked here. What a request means is checked where its future can carry the error.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Id = Annotated[str, Field(min_length=1, max_length=400)]
Sequence64 = Annotated[int, Field(ge=0, lt=2**63)]
Metadata = dict[str, Any]


class Body(BaseModel):
    """Fields that a later SDK adds are ignored; those it leaves out have defaults."""

    model_config = ConfigDict(protected_namespaces=())


class CreateSession(Body):
    tags: list[str] = []
    user_metadata: Metadata | None = None
    display_name: str | None = None
    project_id: Id | None = None


class SessionId(Body):
    session_id: Id


class ModelId(Body):
    model_id: Id


class RequestId(Body):
    request_id: Id


class LoraConfig(Body):
    rank: int
    seed: int | None = None
    train_unembed: bool = True
    train_mlp: bool = True
    train_attn: bool = True


class CreateModel(Body):
    session_id: Id
    model_seq_id: Sequence64
    base_model: str
    user_metadata: Metadata | None = None
    lora_config: LoraConfig | None = None
    optimizer_config: dict[str, Any] = {"type": "adamw"}


class OptimStep(Body):
    model_id: Id
    seq_id: Sequence64 | None = None
    adam_params: dict[str, Any] | None = None
    optimizer_params: dict[str, Any] | None = None


class SaveWeights(Body):
    model_id: Id
    path: str | None = None
    seq_id: Sequence64 | None = None
    ttl_seconds: int | None = None
    overwrite: bool = False
    user_metadata: Metadata | None = None


class SaveForSampler(Body):
    model_id: Id
    path: str | None = None
    sampling_session_seq_id: Sequence64 | None = None
    kind: str = "snapshot"
    seq_id: Sequence64 | None = None
    ttl_seconds: int | None = None
    user_metadata: Metadata | None = None


class SaveExternal(Body):
    model_id: Id
    path: str | None = None
    seq_id: Sequence64 | None = None
    ttl_seconds: int | None = None
    age_encryption_recipients: list[str] | None = None


class CopyWeights(Body):
    """Into a slot of a session, or into a project."""

    source_path: str
    session_id: Id | None = None
    model_seq_id: Sequence64 | None = None
    destination_project_id: Id | None = None
    ttl_seconds: int | None = None


class LoadWeights(Body):
    """Either `model_id` and `seq_id` (older) or `session_id` and `model_seq_id`, which makes a run."""

    path: str
    optimizer: bool
    model_id: Id | None = None
    seq_id: Sequence64 | None = None
    session_id: Id | None = None
    model_seq_id: Sequence64 | None = None
    base_model: str | None = None
    user_metadata: Metadata | None = None
    optimizer_config: dict[str, Any] | None = None


class CreateSamplingSession(Body):
    session_id: Id
    sampling_session_seq_id: Sequence64
    base_model: str | None = None
    model_path: str | None = None


class Chunk(Body):
    type: str = "encoded_text"
    tokens: list[int] = []


class ModelInput(Body):
    chunks: list[Chunk]


class SamplingParams(Body):
    max_tokens: int | None = None
    seed: int | None = None
    stop: str | list[str] | list[int] | None = None
    temperature: float | None = 1.0
    top_k: int = -1
    top_p: float | None = 1.0


class TensorData(Body):
    """A tensor in JSON: dense, or sparse CSR where the crow indices are there."""

    data: list[int]
    dtype: str
    shape: list[int] | None = None
    sparse_crow_indices: list[int] | None = None
    sparse_col_indices: list[int] | None = None


class Sample(Body):
    sampling_session_id: Id
    seq_id: Sequence64
    prompt: ModelInput
    sampling_params: SamplingParams
    num_samples: int = 1
    prompt_logprobs: bool | None = None
    topk_prompt_logprobs: int = 0
    topk_sample_logprobs: int = 0
    target_prompt_logprobs: TensorData | None = None
    prompt_alt_tokens_k: int = 0
    prompt_logprobs_last_n: int | None = None
    record_stability_info: bool | None = None


class SamplingSessionId(Body):
    sampling_session_id: Id


class FuturesTarget(Body):
    sampling_session_id: Id
    cloned_sampler_id: Sequence64 = 0


class RetrieveFutures(Body):
    """`timeout` shortens the wait; 0 asks for what is there."""

    target: FuturesTarget
    prev_cursor: Sequence64 = 0
    timeout: float | None = None


class Ttl(Body):
    ttl_seconds: int | None = None


class WeightsPath(Body):
    tinker_path: str


# -- records ---------------------------------------------------------------------------------------------------


class Checkpoint(Body):
    checkpoint_id: str  # with its kind: "weights/NAME"
    checkpoint_type: Literal["training", "sampler", "external"]
    time: datetime
    tinker_path: str
    size_bytes: int
    public: bool = False
    user_metadata: dict[str, str] | None = None
    expires_at: datetime | None = None


class TrainingRun(Body):
    training_run_id: str
    base_model: str
    model_owner: str
    is_lora: bool = True
    lora_rank: int | None
    corrupted: bool = False
    last_request_time: datetime
    last_checkpoint: Checkpoint | None = None
    last_sampler_checkpoint: Checkpoint | None = None
    user_metadata: dict[str, str] | None = None


class Cursor(Body):
    offset: int
    limit: int
    total_count: int
