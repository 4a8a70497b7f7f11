"""forward_backward on the wire: protobuf in, protobuf out; the optimizer's and the adapter's settings in JSON."""

from __future__ import annotations

from typing import Any, cast, get_args

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from motet.engine.core.requests import ForwardBackward
from motet.engine.types import AdamW, AdapterShape, Claim, Datum, IntArray, Loss, LossName, TrainResult
from motet.errors import BadRequest
from motet.service.wire import protobuf as pb
from motet.service.wire.bounds import check_parts, form_of
from motet.service.wire.tensors import MAX_CELLS, decode_bytes, decode_tensor, encode_records, sparse_cells

FORM = form_of(pb.ForwardBackwardRequest.DESCRIPTOR)
TOKEN_BYTES = 4
PER_TOKEN = [name for name in Datum.__dataclass_fields__ if name not in ("tokens", "targets")]
STABLE_REINFORCE = (
    "its formula is not public: use importance_sampling, ppo or cispo instead "
    "(in tinker-cookbook, loss_fn=importance_sampling)"
)
ELSEWHERE = {
    "stable_reinforce": STABLE_REINFORCE,
    "custom": "custom losses run on the client: leave custom_loss_server_side off and call forward_backward_custom",
}


def parse_forward_backward(body: bytes) -> Any:
    """The message, its content unread. BadRequest where the bytes are no such message, or one of too many parts."""
    check_parts(body, FORM)
    message = pb.ForwardBackwardRequest()
    try:
        message.ParseFromString(body)
    except DecodeError:
        raise BadRequest("the body is no ForwardBackwardRequest; SDKs before 0.25 sent JSON: use tinker 0.38") from None
    return message


def count_tokens(message: Any) -> int:
    """How many tokens its datums bring."""
    return sum(map(_count, message.data))


def _count(datum: Any) -> int:
    return sum(len(chunk.encoded_text.tokens) for chunk in datum.model_input) // TOKEN_BYTES


def read_forward_backward(message: Any) -> ForwardBackward:
    """The engine's request. BadRequest names the datum and the field that do not fit."""
    _check_cells(message.data)
    data = tuple(_read_datum(f"datum {index}", datum) for index, datum in enumerate(message.data))
    return ForwardBackward(message.model_id, data, _read_loss(message), backward=not message.forward_only)


def encode_train_result(result: TrainResult) -> bytes:
    """A ForwardBackwardOutput with `logprobs` a datum and the metrics."""
    output = pb.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord", metrics=result.metrics)
    encode_records("logprobs", result.logprobs, output.loss_fn_outputs)
    return cast(bytes, output.SerializeToString())


def _read_loss(message: Any) -> Loss:
    name = message.loss_fn
    if name in ELSEWHERE:
        raise BadRequest(f"the loss {name} is not available here: {ELSEWHERE[name]}")
    if name not in get_args(LossName):
        raise BadRequest(f"unknown loss {name!r}: choose one of {', '.join(get_args(LossName))}")
    config = dict(message.loss_fn_config)
    for key, value in message.loss_fn_config_v2.items():  # the newer map wins
        if not value.HasField("number"):
            raise BadRequest(f"{name}: the setting {key!r} must be a number")
        config[key] = value.number
    return Loss(cast(LossName, name), config)


def _check_cells(data: Any) -> None:
    """BadRequest where sparse tensors would be far larger than what was sent: before any of them is made."""
    cells = sum(
        sparse_cells(f"datum {index}: {key}", tensor, _count(datum))
        for index, datum in enumerate(data)
        for key, tensor in datum.loss_fn_inputs.items()
    )
    if cells > MAX_CELLS:
        raise BadRequest(
            f"the sparse tensors have {cells} cells, {MAX_CELLS} at most in a request: send fewer datums in each"
        )


def _read_datum(name: str, message: Any) -> Datum:
    arrays = {key: decode_tensor(f"{name}: {key}", tensor) for key, tensor in message.loss_fn_inputs.items()}
    targets = arrays.pop("target_tokens", None)
    if targets is None:
        raise BadRequest(f"{name} has no target_tokens")
    if targets.dtype.kind != "i":
        raise BadRequest(f"{name}: target_tokens are {targets.dtype}; they must be integers")
    unknown = arrays.keys() - set(PER_TOKEN)
    if unknown:
        known = ", ".join(["target_tokens", *PER_TOKEN])
        raise BadRequest(f"{name} has the unknown input {min(unknown)!r}; known are {known}")
    return Datum(
        _read_tokens(name, message.model_input),
        targets,
        **{key: array.astype(np.float32) for key, array in arrays.items()},
    )


def _read_tokens(name: str, chunks: Any) -> IntArray:
    tokens: list[NDArray[Any]] = []
    for chunk in chunks:
        if not chunk.HasField("encoded_text"):
            raise BadRequest(f"{name} has an image or audio chunk: this base model takes text tokens only")
        tokens.append(decode_bytes(f"{name}: tokens", chunk.encoded_text.tokens, np.dtype("<i4")))
    return np.concatenate(tokens) if tokens else np.zeros(0, np.int32)


# -- settings in JSON ------------------------------------------------------------------------------------------


def read_adam(adam_params: dict[str, Any] | None, optimizer_params: dict[str, Any] | None) -> AdamW:
    """The optimizer step's settings. BadRequest for another optimizer, an unknown key or no number."""
    if adam_params is None:
        kind = (optimizer_params or {}).get("type", "none")
        raise BadRequest(f"the optimizer {kind!r} is not available here: send AdamParams")
    known = AdamW.__dataclass_fields__
    for key, value in adam_params.items():
        if key not in known:
            raise BadRequest(f"adam_params has the unknown key {key!r}; known are {', '.join(known)}")
        if not _is_number(value):
            raise BadRequest(f"adam_params: {key} must be a number, not {value!r}")
    try:
        return AdamW(**{key: float(value) for key, value in adam_params.items()})
    except OverflowError:
        raise BadRequest("adam_params has an integer beyond every float") from None


def read_shape(rank: int, attention: bool, mlp: bool, unembed: bool, metadata: dict[str, Any]) -> AdapterShape:
    """What the adapter is made of; `motet.alpha` in the run's user_metadata sets alpha."""
    alpha = _above_zero("motet.alpha", metadata.get("motet.alpha", AdapterShape.alpha))
    return AdapterShape(rank, alpha, attention, mlp, unembed)


def read_claim(share: str, share_priority: float, metadata: dict[str, Any]) -> Claim:
    """A run's part of its tenant's device time; `motet.priority` in its user_metadata sets the priority."""
    return Claim(_above_zero("motet.priority", metadata.get("motet.priority", Claim.priority)), share, share_priority)


def _above_zero(key: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not 0 < number < float("inf"):
        raise BadRequest(f"user_metadata: {key} must be a number above 0, not {value!r}")
    return number


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
