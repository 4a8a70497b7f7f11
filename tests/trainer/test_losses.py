"""Every loss against finite differences and hand-computed values."""

from __future__ import annotations

import numpy as np
import pytest

from motet.engine.trainer.losses import LOSSES, make_terms
from motet.engine.types import Datum, Loss

CASES = [
    ("cross_entropy", {}),
    ("importance_sampling", {}),
    ("ppo", {}),
    ("ppo", {"clip_low_threshold": 0.9, "clip_high_threshold": 1.5}),
    ("cispo", {}),
    ("cispo", {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}),
    ("dro", {}),
    ("dro", {"beta": 1.0}),
    ("gspo", {}),
]


def datum(rng: np.random.Generator, length: int) -> Datum:
    mask = np.ones(length, np.float32)
    mask[:2] = 0
    return Datum(
        tokens=rng.integers(0, 50, length),
        targets=rng.integers(0, 50, length),
        weights=rng.normal(size=length).astype(np.float32),
        logprobs=-rng.random(length).astype(np.float32),
        advantages=(rng.normal(size=length) * mask).astype(np.float32),
        sequence_ratio_mask=mask,
    )


@pytest.mark.parametrize(("name", "config"), CASES)
def test_derivative_is_that_of_the_value(name: str, config: dict[str, float]) -> None:
    """Where the loss stops a gradient (cispo, gspo) the weight is held fixed, as its definition says."""
    rng = np.random.default_rng(3)
    data = tuple(datum(rng, n) for n in (7, 11))
    terms = make_terms(data, Loss(name, config))  # type: ignore[arg-type]
    p = terms.q + rng.uniform(-0.6, 0.6, terms.q.shape)
    got = LOSSES[name](p, terms, config).gradient
    small = 1e-6
    for i in range(len(p)):
        if LOSSES[name].whole_datum or name == "cispo":
            expected = stopped_gradient(name, p, terms, i)
        else:
            up, down = p.copy(), p.copy()
            up[i] += small
            down[i] -= small
            values = [LOSSES[name](x, terms, config).value.sum() for x in (up, down)]
            expected = (values[0] - values[1]) / (2 * small)
        assert got[i] == pytest.approx(expected, abs=1e-5), (name, i)


def stopped_gradient(name: str, p: np.ndarray, terms, i: int) -> float:  # type: ignore[no-untyped-def]
    """From the definitions, one target at a time."""
    advantage, low, high = terms.advantages[i], terms.low[i], terms.high[i]
    if name == "cispo":
        return -float(np.clip(np.exp(p[i] - terms.q[i]), low, high) * advantage)
    same = (terms.datum == terms.datum[i]) & (terms.mask > 0)
    ratio = float(np.exp((p - terms.q)[same].mean()))
    free = ratio * advantage < np.clip(ratio, low, high) * advantage or low <= ratio <= high
    return -ratio * advantage if free else 0.0


def test_values_by_hand() -> None:
    one = Datum(
        tokens=np.array([1, 2]),
        targets=np.array([2, 3]),
        logprobs=np.log(np.array([0.5, 0.5], np.float32)),
        advantages=np.array([1.0, -1.0], np.float32),
    )
    p = np.log(np.array([0.75, 0.75]))  # both ratios are 1.5
    value = {
        name: LOSSES[name](p, make_terms((one,), Loss(name)), {}).value.sum()  # type: ignore[arg-type]
        for name in ("importance_sampling", "ppo", "cispo")
    }
    assert value["importance_sampling"] == pytest.approx(-1.5 + 1.5)
    assert value["ppo"] == pytest.approx(-1.2 + 1.5)  # clipped above for A > 0, not for A < 0
    assert value["cispo"] == pytest.approx(-1.5 * np.log(0.75) + 1.5 * np.log(0.75))


def test_weights_default_to_one_and_k_targets_are_flat() -> None:
    several = Datum(tokens=np.array([1, 2]), targets=np.array([[2, 3], [4, 5]]))
    terms = make_terms((several,), Loss())
    value = LOSSES["cross_entropy"](np.full(4, -0.5), terms, {})
    assert value.value.sum() == pytest.approx(2.0)
    assert value.gradient.tolist() == [-1.0] * 4
