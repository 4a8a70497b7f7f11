"""The API's losses: for each, its value and its derivative by the current log-probabilities.

p is the current log-probability of a target, q the sampling policy's, A the advantage, r = exp(p - q). All are sums
over the targets of a request: no mean over batch, length or weights. Derivatives are written out, so that the
backward begins with plain arrays; they are checked against finite differences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from motet.engine.types import Datum, Loss

Array = NDArray[np.float64]
Settings = Mapping[str, float]


@dataclass(frozen=True)
class Terms:
    """What a loss needs beside p, for a number of targets, all of one length."""

    datum: NDArray[np.int64]  # which datum a target belongs to
    weights: Array
    q: Array
    advantages: Array
    mask: Array
    low: Array
    high: Array

    def take(self, chosen: NDArray[np.bool_]) -> Terms:
        return Terms(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})


@dataclass(frozen=True)
class LossValue:
    """For each target its share of the loss, and d loss / d p."""

    value: Array
    gradient: Array


def make_terms(data: tuple[Datum, ...], loss: Loss) -> Terms:
    """The arrays of some datums end to end; what a datum leaves out is filled in."""
    settings = LOSSES[loss.name].settled(loss.config)

    def joined(name: str, missing: float) -> Array:
        arrays = [getattr(datum, name) for datum in data]
        sizes = [datum.targets.size for datum in data]
        parts = [np.full(n, missing) if a is None else a.reshape(-1) for a, n in zip(arrays, sizes, strict=True)]
        return np.concatenate(parts).astype(np.float64)

    return Terms(
        datum=np.repeat(np.arange(len(data)), [datum.targets.size for datum in data]),
        weights=joined("weights", 1.0),
        q=joined("logprobs", 0.0),
        advantages=joined("advantages", 0.0),
        mask=joined("sequence_ratio_mask", 0.0),
        low=joined("clip_low_threshold", settings.get("clip_low_threshold", 0.0)),
        high=joined("clip_high_threshold", settings.get("clip_high_threshold", np.inf)),
    )


def cross_entropy(p: Array, terms: Terms, settings: Settings) -> LossValue:
    """-sum(w p)."""
    return LossValue(-terms.weights * p, -terms.weights)


def importance_sampling(p: Array, terms: Terms, settings: Settings) -> LossValue:
    """-sum(r A); its derivative is -r A."""
    surrogate = -np.exp(p - terms.q) * terms.advantages
    return LossValue(surrogate, surrogate)


def _clipped(ratio: Array, terms: Terms) -> LossValue:
    """-min(r A, clip(r) A), where r moves with p as exp(p) does: the shared part of ppo and gspo."""
    plain, clipped = ratio * terms.advantages, np.clip(ratio, terms.low, terms.high) * terms.advantages
    moves = (plain < clipped) | ((terms.low <= ratio) & (ratio <= terms.high))
    return LossValue(-np.minimum(plain, clipped), -np.where(moves, plain, 0.0))


def ppo(p: Array, terms: Terms, settings: Settings) -> LossValue:
    """-sum(min(r A, clip(r, low, high) A)) (Schulman et al. 2017, eq. 7)."""
    return _clipped(np.exp(p - terms.q), terms)


def cispo(p: Array, terms: Terms, settings: Settings) -> LossValue:
    """-sum(sg(clip(r, low, high)) p A) (MiniMax-M1 2025, eq. 4)."""
    weight = np.clip(np.exp(p - terms.q), terms.low, terms.high) * terms.advantages
    return LossValue(-weight * p, -weight)


def dro(p: Array, terms: Terms, settings: Settings) -> LossValue:
    """-sum(p A - beta/2 (p - q)^2) (Richemond et al. 2024)."""
    beta, drift = settings["beta"], p - terms.q
    return LossValue(-(p * terms.advantages - 0.5 * beta * drift**2), -(terms.advantages - beta * drift))


def gspo(p: Array, terms: Terms, settings: Settings) -> LossValue:
    """-sum(min(s_t A, clip(s_t) A)), s_t = s exp(p - sg(p)), s = exp(mean over the mask of p - q).

    (Zheng et al. 2025, GSPO-token.)
    """
    drift = np.bincount(terms.datum, (p - terms.q) * terms.mask)
    counts = np.maximum(np.bincount(terms.datum, terms.mask), 1.0)
    return _clipped(np.exp(drift / counts)[terms.datum], terms)


@dataclass(frozen=True)
class LossRule:
    """A loss: its function of p, what its config may set (with the API's defaults), and how far it must see."""

    function: Callable[[Array, Terms, Settings], LossValue]
    defaults: Settings = field(default_factory=dict)
    whole_datum: bool = False  # a target's derivative depends on the datum's other targets

    def settled(self, config: Settings) -> Settings:
        """The config, with what it leaves out."""
        return {**self.defaults, **config}

    def __call__(self, p: Array, terms: Terms, config: Settings) -> LossValue:
        return self.function(p, terms, self.settled(config))


LOSSES: dict[str, LossRule] = {
    "cross_entropy": LossRule(cross_entropy),
    "importance_sampling": LossRule(importance_sampling),
    "ppo": LossRule(ppo, {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}),
    "cispo": LossRule(cispo, {"clip_low_threshold": 0.0, "clip_high_threshold": 4.0}),
    "dro": LossRule(dro, {"beta": 0.05}),
    "gspo": LossRule(gspo, {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}, whole_datum=True),
}
