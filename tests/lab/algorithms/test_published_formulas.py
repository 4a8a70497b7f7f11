"""Each algorithm's gradient, as the engine's losses have it of our datums, is that of the formula as it was published,
written here anew and differentiated by torch; and where it should it differs from plain REINFORCE's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from motet.engine.trainer.losses import LOSSES, Terms
from motet.lab.algorithms.base import AlgorithmSettings, Array, Batch
from motet.lab.algorithms.cispo import Cispo
from motet.lab.algorithms.dapo import Dapo
from motet.lab.algorithms.dr_grpo import DrGrpo
from motet.lab.algorithms.grpo import Grpo
from motet.lab.algorithms.gspo import Gspo
from motet.lab.algorithms.ppo import Ppo
from motet.lab.algorithms.reinforce import Reinforce
from motet.lab.algorithms.rloo import Rloo
from motet.lab.envs.protocol import End, Group, Trajectory, Turn, Written
from tests.lab.algorithms.test_by_hand import scorers

REWARDS = ((1.0, 0.0, 0.5, 0.0), (0.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1.0))  # the last group differs in nothing
LENGTHS = ((3, 5, 2, 7), (4, 4, 1, 6), (2, 2, 9, 3))


@dataclass(frozen=True)
class Episode:
    """Of the written tokens: what the policy that wrote gave them, and what it gives now."""

    reward: float
    q: Tensor
    p: Tensor  # wants a gradient

    @property
    def ratio(self) -> Tensor:
        return torch.exp(self.p - self.q)


def made(drift: float, seed: int = 0) -> list[list[Episode]]:
    """Groups of episodes; p is off q by about `drift`."""
    random = torch.Generator().manual_seed(seed)

    def episode(reward: float, length: int) -> Episode:
        q = -3 * torch.rand(length, generator=random, dtype=torch.float64)
        p = q + drift * torch.randn(length, generator=random, dtype=torch.float64)
        return Episode(reward, q, p.requires_grad_())

    return [[episode(r, n) for r, n in zip(*both, strict=True)] for both in zip(REWARDS, LENGTHS, strict=True)]


def ours(algorithm: AlgorithmSettings, groups: list[list[Episode]]) -> list[Array]:
    """The gradient by each p; of what is left out it is 0."""
    played = [
        Group(i, [_played(i, k, one) for k, one in enumerate(group)]) for i, group in enumerate(groups)
    ]  # the first two tokens say who it is
    batch: Batch = asyncio.run(algorithm.batch(played, scorers()))
    found = {}
    for datum in batch.data:
        i, k, *_ = datum.model_input.to_ints()
        one, inputs = groups[i][k], {key: value.to_numpy() for key, value in datum.loss_fn_inputs.items()}
        assert inputs["logprobs"][1:].tolist() == pytest.approx(one.q.tolist(), abs=1e-6)
        found[i, k] = _derivative(batch, inputs, np.concatenate([[0.0], one.p.detach().numpy()]))
    return [found.get((i, k), np.zeros(len(one.q))) for i, group in enumerate(groups) for k, one in enumerate(group)]


def _played(group: int, member: int, one: Episode) -> Trajectory:
    written = Written([7] * len(one.q), one.q.tolist(), "", True)
    return Trajectory([Turn([group, member], written)], End(one.reward, ""), version=1)


def _derivative(batch: Batch, inputs: dict[str, Array], p: Array) -> Array:
    """As the trainer takes it. What was read has no part in it."""
    size, rule = len(p), LOSSES[batch.loss]
    settings = rule.settled(batch.loss_config)
    terms = Terms(
        datum=np.zeros(size, np.int64),
        weights=np.ones(size),
        q=inputs["logprobs"].astype(np.float64),
        advantages=inputs["advantages"].astype(np.float64),
        mask=inputs.get("sequence_ratio_mask", np.zeros(size)).astype(np.float64),
        low=np.full(size, settings.get("clip_low_threshold", 0.0)),
        high=np.full(size, settings.get("clip_high_threshold", np.inf)),
    )
    gradient = rule(p, terms, batch.loss_config).gradient
    assert gradient[0] == 0
    return gradient[1:]


def theirs(objective: Callable[[list[list[Episode]]], Tensor], groups: list[list[Episode]]) -> list[Array]:
    """The gradient of -J by each p."""
    wanted = [one.p for group in groups for one in group]
    grads = torch.autograd.grad(-objective(groups), wanted, allow_unused=True)
    return [np.zeros(len(p)) if g is None else g.numpy() for p, g in zip(wanted, grads, strict=True)]


# -- as published -------------------------------------------------------------------------------------------------


def standard(group: Sequence[Episode]) -> list[float]:
    rewards = np.asarray([one.reward for one in group])
    return [float((r - rewards.mean()) / (rewards.std() + 1e-6)) for r in rewards]


def clipped(ratio: Tensor, advantage: float, low: float, high: float) -> Tensor:
    return torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)


def grpo(groups: list[list[Episode]]) -> Tensor:
    """DeepSeekMath, equation 3, without its penalty: the mean over groups of 1/G sum_i 1/|o_i| sum_t."""
    of = [
        torch.stack([clipped(o.ratio, a, 0.2, 0.2).mean() for o, a in zip(group, standard(group), strict=True)]).mean()
        for group in groups
    ]
    return torch.stack(of).mean()


def dr_grpo(groups: list[list[Episode]]) -> Tensor:
    """Dr. GRPO: neither the deviation nor |o_i|; here divided by a length of 10."""
    of = []
    for group in groups:
        mean = float(np.mean([one.reward for one in group]))
        of.append(torch.stack([clipped(one.ratio, one.reward - mean, 0.2, 0.2).sum() / 10 for one in group]).mean())
    return torch.stack(of).mean()


def rloo(groups: list[list[Episode]]) -> Tensor:
    """RLOO, equation 7, with importance weights, over all tokens."""
    of, tokens = [], sum(len(one.q) for group in groups for one in group)
    for group in groups:
        for k, one in enumerate(group):
            others = [other.reward for other in (*group[:k], *group[k + 1 :])]
            of.append(one.ratio.sum() * (one.reward - float(np.mean(others))))
    return torch.stack(of).sum() / tokens


def reinforce(groups: list[list[Episode]]) -> Tensor:
    everyone = [one for group in groups for one in group]
    mean = float(np.mean([one.reward for one in everyone]))
    total = torch.stack([one.ratio.sum() * (one.reward - mean) for one in everyone]).sum()
    return total / sum(len(one.q) for one in everyone)


def ppo(groups: list[list[Episode]]) -> Tensor:
    everyone = [one for group in groups for one in group]
    total = [clipped(o.ratio, a, 0.2, 0.2).sum() for o, a in zip(everyone, standard(everyone), strict=True)]
    return torch.stack(total).sum() / sum(len(one.q) for one in everyone)


def dapo(groups: list[list[Episode]]) -> Tensor:
    """DAPO, equations 8 and 11 to 13: over groups that differ, lengths priced between 4 and 6 tokens."""
    kept, total, tokens = [group for group in groups if len({one.reward for one in group}) > 1], [], 0
    for group in kept:
        priced = [Episode(o.reward + min(0.0, max((4 - len(o.q)) / 2, -1.0)), o.q, o.p) for o in group]
        total += [clipped(o.ratio, a, 0.2, 0.28).sum() for o, a in zip(group, standard(priced), strict=True)]
        tokens += sum(len(one.q) for one in group)
    return torch.stack(total).sum() / tokens


def cispo(groups: list[list[Episode]]) -> Tensor:
    """MiniMax-M1, equations 4 and 5: the mean over tokens of sg(clip(r)) A log p."""
    total = []
    for group in groups:
        for one, advantage in zip(group, standard(group), strict=True):
            total.append((one.ratio.clamp(0.0, 4.0).detach() * advantage * one.p).sum())
    return torch.stack(total).sum() / sum(len(one.q) for group in groups for one in group)


def gspo(groups: list[list[Episode]]) -> Tensor:
    """GSPO, equations 5 to 7, with a clip of 0.1 here: the mean over episodes of min(s A, clip(s) A)."""
    total = []
    for group in groups:
        for one, advantage in zip(group, standard(group), strict=True):
            s = (torch.exp(one.p.sum()) / torch.exp(one.q.sum())) ** (1 / len(one.q))
            total.append(clipped(s, advantage, 0.1, 0.1))
    return torch.stack(total).mean()


PUBLISHED: list[tuple[AlgorithmSettings, Callable[[list[list[Episode]]], Tensor]]] = [
    (Grpo(average="episodes"), grpo),
    (DrGrpo(name="dr_grpo", length=10), dr_grpo),
    (Rloo(name="rloo"), rloo),
    (Reinforce(name="reinforce"), reinforce),
    (Ppo(name="ppo"), ppo),
    (Dapo(name="dapo", overlong=6, overlong_buffer=2, resample=3.0), dapo),
    (Cispo(name="cispo"), cispo),
    (Gspo(name="gspo", clip=0.1, clip_high=0.1), gspo),
]


@pytest.mark.parametrize("drift", [0.0, 0.5], ids=["on policy", "off policy"])
@pytest.mark.parametrize(("algorithm", "objective"), PUBLISHED, ids=[told.__name__ for _, told in PUBLISHED])
def test_a_gradient_is_the_published_one(
    algorithm: AlgorithmSettings, objective: Callable[[list[list[Episode]]], Tensor], drift: float
) -> None:
    groups = made(drift)
    found, right = ours(algorithm, groups), theirs(objective, groups)
    assert any(one.any() for one in right)
    for mine, known in zip(found, right, strict=True):
        np.testing.assert_allclose(mine, known, rtol=1e-5, atol=1e-8)


# -- where they differ from REINFORCE -----------------------------------------------------------------------------


def direction(algorithm: AlgorithmSettings, groups: list[list[Episode]]) -> Array:
    found = np.concatenate(ours(algorithm, groups))
    return found / np.linalg.norm(found)


PLAIN = Reinforce(name="reinforce")
OTHERS = [algorithm for algorithm, _ in PUBLISHED if not isinstance(algorithm, Reinforce)]


def test_on_policy_whitening_over_the_step_changes_the_length_of_a_step_alone() -> None:
    np.testing.assert_allclose(direction(Ppo(name="ppo"), made(0.0)), direction(PLAIN, made(0.0)), atol=1e-6)


@pytest.mark.parametrize("algorithm", [one for one in OTHERS if not isinstance(one, Ppo)], ids=lambda one: one.name)
def test_a_group_is_its_own_baseline(algorithm: AlgorithmSettings) -> None:
    """REINFORCE learns from an easy problem that it is easy; they do not."""
    groups = made(0.0)
    assert not np.concatenate(ours(algorithm, groups)[8:]).any()
    assert np.concatenate(ours(PLAIN, groups)[8:]).all()
    assert float(direction(algorithm, groups) @ direction(PLAIN, groups)) < 0.99


def test_off_policy_each_bounds_a_token_in_its_own_way() -> None:
    """Of two tokens of a good episode that the policy now likes 1.25 times as much, and one 10 times as much, and of
    a bad one that it likes 10 times as much: REINFORCE weights all by their ratio."""
    q = torch.full((3,), -3.0, dtype=torch.float64)
    good = (q + torch.log(torch.tensor([1.25, 1.25, 10.0], dtype=torch.float64))).requires_grad_()
    groups = [[Episode(1.0, q, good), Episode(0.0, q, good)]]
    unit = 0.5 / 6
    plain, bad = ours(PLAIN, groups)
    assert plain == pytest.approx(-unit * np.asarray([1.25, 1.25, 10.0])) and bad == pytest.approx(-plain)
    grpo, bad = ours(Grpo(divide_by_std=False), groups)
    assert grpo.tolist() == [0, 0, 0] and bad == pytest.approx(-plain)  # a bad token is brought down however far it is
    dapo, _ = ours(Dapo(name="dapo"), groups)
    assert dapo == pytest.approx(-2 * unit * np.asarray([1.25, 1.25, 0.0]), rel=1e-5)  # whitened: twice as much
    cispo, _ = ours(Cispo(name="cispo"), groups)
    assert cispo == pytest.approx(-2 * unit * np.asarray([1.25, 1.25, 4.0]), rel=1e-5)
    gspo, _ = ours(Gspo(name="gspo", clip_high=2.0), groups)
    assert gspo == pytest.approx(-2 * unit * np.full(3, 2.5), rel=1e-5)  # the geometric mean: 15.625 to 1/3
