"""Training requests that are wrong: each is told what is wrong with it, before any of it is run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from motet.engine.trainer.checks import check_adam, check_data
from motet.engine.trainer.losses import LOSSES
from motet.engine.types import AdamW, Datum, Loss
from motet.errors import BadRequest

NUMBERS = np.array([0.5, -0.5, 0.25], np.float32)
GOOD = Datum(
    np.array([1, 2, 3]), np.array([2, 3, 4]), logprobs=NUMBERS, advantages=NUMBERS, sequence_ratio_mask=NUMBERS
)
NAN = np.array([0.5, np.nan, 0.25], np.float32)


@pytest.mark.parametrize("name", LOSSES)
def test_a_good_request_passes(name: str) -> None:
    check_data((GOOD,), Loss(name, dict(LOSSES[name].defaults)), vocabulary=5, context=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("loss", "changes", "told"),
    [
        (Loss("sft"), {}, "unknown loss 'sft': choose one of cross_entropy"),  # type: ignore[arg-type]
        (Loss("ppo", {"beta": 1.0}), {}, "ppo has no setting 'beta'; it knows: clip_low_threshold, clip_high"),
        (Loss("cross_entropy", {"beta": 1.0}), {}, "it knows: none"),
        (Loss("dro", {"beta": float("inf")}), {}, "beta is inf"),
        (Loss(), {"tokens": np.array([[1, 2, 3]])}, "tokens have the shape"),
        (Loss(), {"tokens": np.array([], np.int64), "targets": np.array([], np.int64)}, "has 0 tokens: 1 to 3 fit"),
        (Loss(), {"tokens": np.array([1, 2, 3, 4])}, "has 4 tokens"),
        (Loss(), {"targets": np.array([2, 3])}, r"targets have the shape \(2,\), tokens have the length 3"),
        (Loss(), {"tokens": np.array([1, 2, 5])}, "has the token 5: the vocabulary is 0 to 4"),
        (Loss(), {"targets": np.array([1, -2, 3])}, "has the target -2"),
        (Loss(), {"weights": NAN}, "weights has NaN"),
        (Loss("ppo"), {"advantages": NAN}, "advantages has NaN"),
        (Loss("ppo"), {"logprobs": None}, "lacks 'logprobs'"),
        (Loss("ppo"), {"advantages": NUMBERS[:2]}, r"advantages has the shape \(2,\)"),
        (Loss("ppo"), {"clip_high_threshold": NAN}, "clip_high_threshold has NaN"),
        (Loss("gspo"), {"sequence_ratio_mask": None}, "lacks 'sequence_ratio_mask'"),
        (Loss("cispo"), {"targets": np.array([[1, 2], [2, 3], [3, 4]])}, "takes one target a token"),
    ],
)
def test_what_is_wrong_is_told(loss: Loss, changes: dict[str, object], told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        check_data((GOOD, replace(GOOD, **changes)), loss, vocabulary=5, context=3)  # type: ignore[arg-type]


def test_a_request_without_data() -> None:
    with pytest.raises(BadRequest, match="no data"):
        check_data((), Loss(), 5, 3)


@pytest.mark.parametrize(
    "adam",
    [
        AdamW(learning_rate=-1.0),
        AdamW(learning_rate=float("nan")),
        AdamW(beta1=1.0),
        AdamW(eps=0.0),
        AdamW(eps=float("inf")),
        AdamW(grad_clip_norm=-0.1),
    ],
)
def test_optimizer_settings_to_train_with(adam: AdamW) -> None:
    check_adam(AdamW())
    with pytest.raises(BadRequest):
        check_adam(adam)
