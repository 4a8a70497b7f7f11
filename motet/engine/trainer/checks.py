"""What a training request must hold, checked before any of it is run: a bad request fails alone, and whole."""

from __future__ import annotations

import numpy as np

from motet.engine.trainer.losses import LOSSES
from motet.engine.types import AdamW, Datum, FloatArray, Loss, as_float32
from motet.errors import BadRequest

LEAST_EPS = 1e-20  # squares of smaller gradients are 0 in float32: less than this would guard nothing


def check_data(data: tuple[Datum, ...], loss: Loss, vocabulary: int, context: int) -> None:
    """BadRequest names the datum and what is wrong with it."""
    if loss.name not in LOSSES:
        raise BadRequest(f"unknown loss {loss.name!r}: choose one of {', '.join(LOSSES)}")
    if not data:
        raise BadRequest("the request has no data: send at least one datum")
    _check_config(loss)
    for index, datum in enumerate(data):
        _check_datum(f"datum {index}", datum, loss, vocabulary, context)


def _check_config(loss: Loss) -> None:
    allowed = LOSSES[loss.name].defaults
    for key, value in loss.config.items():
        if key not in allowed:
            known = ", ".join(allowed) or "none"
            raise BadRequest(f"{loss.name} has no setting {key!r}; it knows: {known}")
        if not np.isfinite(as_float32(value)):
            raise BadRequest(f"{loss.name}: {key} is {value}, which is not a number to train with")


def _check_datum(name: str, datum: Datum, loss: Loss, vocabulary: int, context: int) -> None:
    if datum.tokens.ndim != 1:
        raise BadRequest(f"{name}: tokens have the shape {datum.tokens.shape}, one line of them is needed")
    length = len(datum.tokens)
    if not 1 <= length <= context:
        raise BadRequest(f"{name} has {length} tokens: 1 to {context} fit this base model's context")
    if datum.targets.ndim not in (1, 2) or len(datum.targets) != length or datum.targets.size == 0:
        raise BadRequest(f"{name}: targets have the shape {datum.targets.shape}, tokens have the length {length}")
    for kind, ids in (("token", datum.tokens), ("target", datum.targets)):
        if ids.dtype.kind not in "iu":
            raise BadRequest(f"{name}: its {kind}s are {ids.dtype}; they must be integers")
        if int(ids.min()) < 0 or int(ids.max()) >= vocabulary:
            worst = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
            raise BadRequest(f"{name} has the {kind} {worst}: the vocabulary is 0 to {vocabulary - 1}")
    if loss.name == "cross_entropy":
        _check_array(name, "weights", datum.weights, datum, required=False)
        return
    if datum.targets.ndim != 1:
        raise BadRequest(f"{name}: {loss.name} takes one target a token; only cross_entropy takes several")
    _check_array(name, "logprobs", datum.logprobs, datum)
    _check_array(name, "advantages", datum.advantages, datum)
    _check_array(name, "sequence_ratio_mask", datum.sequence_ratio_mask, datum, required=loss.name == "gspo")
    _check_array(name, "clip_low_threshold", datum.clip_low_threshold, datum, required=False)
    _check_array(name, "clip_high_threshold", datum.clip_high_threshold, datum, required=False)


def _check_array(name: str, key: str, array: FloatArray | None, datum: Datum, required: bool = True) -> None:
    if array is None:
        if required:
            raise BadRequest(f"{name} lacks {key!r}, which this loss needs for every token")
        return
    if array.shape != datum.targets.shape:
        raise BadRequest(f"{name}: {key} has the shape {array.shape}, targets have {datum.targets.shape}")
    if not np.isfinite(as_float32(array)).all():
        raise BadRequest(f"{name}: {key} has NaN or infinite values: look at how they were computed")


def check_adam(adam: AdamW) -> None:
    """BadRequest where an optimizer setting is no number to train with, once it is float32 as the weights are."""
    bounds = {
        "learning_rate": (adam.learning_rate, 0.0, float("inf")),
        "beta1": (adam.beta1, 0.0, 1.0),
        "beta2": (adam.beta2, 0.0, 1.0),
        "eps": (adam.eps, 0.0, float("inf")),
        "weight_decay": (adam.weight_decay, 0.0, float("inf")),
        "grad_clip_norm": (adam.grad_clip_norm, 0.0, float("inf")),
    }
    for key, (value, low, high) in bounds.items():
        if not (low <= value < high) or not np.isfinite(as_float32(value)):
            raise BadRequest(f"{key} is {value}: it must be a float32 number of at least {low:g} and below {high:g}")
    if adam.eps < LEAST_EPS:
        raise BadRequest(
            f"eps is {adam.eps:g}: a parameter without a gradient would become 0 / 0; choose {LEAST_EPS:g} or more"
        )
