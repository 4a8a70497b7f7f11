"""GRPO's numbers by hand, and the datums it makes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from motet.lab.algorithms.base import Batch, Scorers
from motet.lab.algorithms.datums import rl_datum
from motet.lab.algorithms.grpo import Grpo
from motet.lab.envs.protocol import End, Group, Trajectory, Turn, Written


def episode(reward: float, words: int = 2) -> Trajectory:
    """Reads 10 11, writes `words` tokens, reads 30, writes 40."""
    first = Written(list(range(20, 20 + words)), [-1.0] * words, "", True)
    return Trajectory([Turn([10, 11], first), Turn([30], Written([40], [-2.0], "", True))], End(reward, ""))


class Silent:
    """A model that nobody should ask."""

    async def logprobs(self, tokens: Sequence[int]) -> list[float]:
        raise AssertionError("GRPO asks nobody")


def batch_of(algorithm: Grpo, *groups: Group) -> Batch:
    return asyncio.run(algorithm.batch(groups, Scorers(Silent(), Silent(), 0)))


def test_advantages_by_hand() -> None:
    assert Grpo(divide_by_std=False).advantages([1, 0, 0, 1]) == [0.5, -0.5, -0.5, 0.5]
    assert Grpo().advantages([1, 0, 0, 0]) == pytest.approx([3**0.5, *[-(3**-0.5)] * 3], abs=1e-5)


def test_datum_has_the_advantage_exactly_where_the_policy_wrote() -> None:
    datum = rl_datum(episode(1.0), 0.25)
    assert datum.model_input.to_ints() == [10, 11, 20, 21, 30]
    inputs = {name: tensor.to_numpy().tolist() for name, tensor in datum.loss_fn_inputs.items()}
    assert inputs == {
        "target_tokens": [11, 20, 21, 30, 40],
        "logprobs": [0.0, -1.0, -1.0, 0.0, -2.0],
        "advantages": [0.0, 0.25, 0.25, 0.0, 0.25],
    }


def test_batch_leaves_out_what_teaches_nothing_and_is_a_mean_over_tokens() -> None:
    mixed = Group(0, [episode(1.0, words=2), episode(0.0, words=4)])  # 3 + 5 tokens written
    flat = Group(1, [episode(1.0, words=3), episode(1.0, words=3)])  # 8 that teach nothing
    batch = batch_of(Grpo(divide_by_std=False, clip=0.1), mixed, flat)
    assert batch.left_out == 1
    assert batch.loss == "ppo"
    assert batch.loss_config == pytest.approx({"clip_low_threshold": 0.9, "clip_high_threshold": 1.1})
    advantages = [datum.loss_fn_inputs["advantages"].to_numpy() for datum in batch.data]
    assert [np.unique(a[a != 0]).tolist() for a in advantages] == [[0.5 / 16], [-0.5 / 16]]
    assert [int((a != 0).sum()) for a in advantages] == [3, 5]


def test_importance_sampling_has_no_clip() -> None:
    batch = batch_of(Grpo(loss="importance_sampling"), Group(0, [episode(1.0), episode(0.0)]))
    assert (batch.loss, batch.loss_config) == ("importance_sampling", {})


def test_nothing_to_learn_gives_no_data() -> None:
    batch = batch_of(Grpo(), Group(0, [episode(0.0), episode(0.0)]))
    assert (batch.data, batch.left_out) == ([], 1)
