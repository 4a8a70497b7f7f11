"""The API's losses: for each, its value and its derivative by the current log-probabilities.

p is the current log-probability of a target, q the sampling policy's, A the advantage, r = exp(p - q). All are sums over
the tokens of a datum: no mean over batch, length or weights. Derivatives are written out, so that the whole backward
begins with plain arrays; they are checked against finite differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from motet.engine.types import Datum, FloatArray, Loss


@dataclass(frozen=True)
class LossValue:
    """The loss of one datum, a number, and d loss / d p, of the targets' shape."""

    value: float
    gradient: FloatArray


LossFunction = Callable[[FloatArray, Datum, dict[str, float]], LossValue]


def _given(array: FloatArray | None) -> FloatArray:
    assert array is not None, "a datum reached the trainer without having been checked"
    return array.astype(np.float64)


def _bounds(datum: Datum, config: dict[str, float], low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """Clip bounds for every token: the datum's own, else the request's, else the loss's."""
    low_T, high_T = datum.clip_low_threshold, datum.clip_high_threshold
    lows = np.asarray(config.get("clip_low_threshold", low)) if low_T is None else low_T
    highs = np.asarray(config.get("clip_high_threshold", high)) if high_T is None else high_T
    return lows.astype(np.float64), highs.astype(np.float64)


def cross_entropy(p: FloatArray, datum: Datum, config: dict[str, float]) -> LossValue:
    """-sum(w p)."""
    weights = np.ones_like(p) if datum.weights is None else _given(datum.weights)
    return LossValue(-float((weights * p).sum()), -weights)


def importance_sampling(p: FloatArray, datum: Datum, config: dict[str, float]) -> LossValue:
    """-sum(r A); its derivative is -r A."""
    surrogate = np.exp(p - _given(datum.logprobs)) * _given(datum.advantages)
    return LossValue(-float(surrogate.sum()), -surrogate)


def _clipped(ratio: FloatArray, advantages: FloatArray, low: FloatArray, high: FloatArray) -> LossValue:
    """-sum(min(r A, clip(r) A)), by r where r enters as exp(p): the shared part of ppo and gspo."""
    plain, clipped = ratio * advantages, np.clip(ratio, low, high) * advantages
    moves = (plain < clipped) | ((low <= ratio) & (ratio <= high))
    return LossValue(-float(np.minimum(plain, clipped).sum()), -np.where(moves, plain, 0.0))


def ppo(p: FloatArray, datum: Datum, config: dict[str, float]) -> LossValue:
    """-sum(min(r A, clip(r, low, high) A)) (Schulman et al. 2017, eq. 7)."""
    low, high = _bounds(datum, config, 0.8, 1.2)
    return _clipped(np.exp(p - _given(datum.logprobs)), _given(datum.advantages), low, high)


def cispo(p: FloatArray, datum: Datum, config: dict[str, float]) -> LossValue:
    """-sum(sg(clip(r, low, high)) p A) (MiniMax-M1 2025, eq. 4)."""
    low, high = _bounds(datum, config, 0.0, 4.0)
    weight = np.clip(np.exp(p - _given(datum.logprobs)), low, high) * _given(datum.advantages)
    return LossValue(-float((weight * p).sum()), -weight)


def dro(p: FloatArray, datum: Datum, config: dict[str, float]) -> LossValue:
    """-sum(p A - beta/2 (p - q)^2) (Richemond et al. 2024)."""
    beta, advantages, drift = config.get("beta", 0.05), _given(datum.advantages), p - _given(datum.logprobs)
    return LossValue(-float((p * advantages - 0.5 * beta * drift**2).sum()), -(advantages - beta * drift))


def gspo(p: FloatArray, datum: Datum, config: dict[str, float]) -> LossValue:
    """-sum(min(s_t A, clip(s_t) A)), s_t = s exp(p - sg(p)), s = exp(mean of p - q over the mask) (Zheng et al. 2025)."""
    mask = _given(datum.sequence_ratio_mask)
    count = max(float(mask.sum()), 1.0)
    ratio = np.exp(float(((p - _given(datum.logprobs)) * mask).sum()) / count)
    low, high = _bounds(datum, config, 0.8, 1.2)
    return _clipped(np.full_like(p, ratio), _given(datum.advantages), low, high)


LOSSES: dict[str, LossFunction] = {
    "cross_entropy": cross_entropy,
    "importance_sampling": importance_sampling,
    "ppo": ppo,
    "cispo": cispo,
    "dro": dro,
    "gspo": gspo,
}


def loss_value(p: FloatArray, datum: Datum, loss: Loss) -> LossValue:
    """The loss of one datum at log-probabilities p, in float64."""
    return LOSSES[loss.name](p.astype(np.float64), datum, loss.config)
