"""What all policy-gradient algorithms share: groups of episodes in, weighted tokens out.

    L = - sum_i sum_t  n_i  w_it  f(rho_it, A_it),     A_it = A_i - kl (log q(o_it) - log p_base(o_it))

A_i is the algorithm's own (`advantages`), f the loss of the API (clipped or not), w the correction for off-policy
data (see `corrections`), n_i the normaliser: 1/M over tokens (M written in the step, as in DAPO, arXiv:2503.14476),
1/(N |o_i|) over N episodes (as GRPO was published), or 1/(N L) with a constant L (Dr. GRPO, arXiv:2503.20783). The
trainer sums, so n is divided in here, and one learning rate serves batches of any size.

A group whose rewards are all equal has no gradient of its own: it is left out and counted, but counts in M and N, so
that the few groups that still differ late in training do not get a louder voice (AdamW remembers the earlier steps).
The penalty's estimator is k1 of Schulman, "Approximating KL Divergence" (2020), in the reward; k3 is reported beside
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import tinker
from pydantic import Field
from tinker.types import LossFnType

from motet.lab.algorithms.base import AlgorithmSettings, Array, Batch, Lesson, Scorers
from motet.lab.algorithms.corrections import Correction, Level, Reference, Seen, see, told, weights
from motet.lab.algorithms.datums import policy_datum
from motet.lab.envs.protocol import Group, Trajectory

Average = Literal["tokens", "episodes", "constant"]


@dataclass(frozen=True, eq=False)
class Graded:
    """An episode and how much better it was than expected."""

    trajectory: Trajectory
    advantage: float


class PolicyGradient(AlgorithmSettings):
    """Settings that every policy-gradient algorithm has."""

    average: Average = "tokens"
    length: int = Field(default=256, ge=1)  # L of the constant average
    kl: float = Field(default=0.0, ge=0)
    correction: Correction = "none"
    correction_level: Level = "token"
    correction_cap: float = Field(default=2.0, gt=1)
    reference: Reference = "sampler"

    # -- what an algorithm says ---------------------------------------------------------------------------------

    @property
    def api_loss(self) -> LossFnType:
        """The loss of the API."""
        return "importance_sampling"

    @property
    def api_config(self) -> dict[str, float]:
        """Its settings."""
        return {}

    def rewards(self, group: Group) -> list[float]:
        """One a member: what the episodes earned."""
        return group.rewards

    def advantages(self, groups: Sequence[Sequence[float]]) -> list[list[float]]:
        """From the rewards of every group's members to their advantages, not yet normalised."""
        raise NotImplementedError

    # -- what they share ----------------------------------------------------------------------------------------

    def teaches(self, group: Group) -> bool:
        """Has it a gradient?"""
        return self.kl > 0 or len(set(self.rewards(group))) > 1

    async def batch(self, material: Sequence[Group], scorers: Scorers) -> Batch:
        """The datums of one step."""
        graded = self._graded(material)
        seen = await see([one.trajectory for one in graded], scorers, self.correction, self.reference)
        penalties = await asyncio.gather(*(self._penalty(one, scorers) for one in seen))
        corrections = [weights(one, self.correction, self.correction_level, self.correction_cap) for one in seen]
        episodes = [one for group in material for one in group.trajectories]
        lessons = []
        for grade, one, penalty, weight in zip(graded, seen, penalties, corrections, strict=True):
            advantages = one.mask * weight * (grade.advantage - penalty) / self._normaliser(one.trajectory, episodes)
            datum = policy_datum(one.trajectory.tokens, one.reference, advantages)
            lessons.append(Lesson(self._finished(datum, one), one.present[1:]))
        metrics = {**told(seen, corrections, scorers.version), **self._told_penalty(seen, penalties)}
        left_out = sum(not self.teaches(group) for group in material)
        return Batch(lessons, self.api_loss, self.api_config, left_out, metrics=metrics)

    def _graded(self, material: Sequence[Group]) -> list[Graded]:
        """Every episode of a group that teaches, with its advantage."""
        computed = self.advantages([self.rewards(group) for group in material])
        return [
            Graded(one, advantage)
            for group, own in zip(material, computed, strict=True)
            if self.teaches(group)
            for one, advantage in zip(group.trajectories, own, strict=True)
        ]

    def _normaliser(self, one: Trajectory, episodes: Sequence[Trajectory]) -> float:
        if self.average == "tokens":
            return float(max(sum(other.written_count for other in episodes), 1))
        if self.average == "episodes":
            return float(len(episodes) * max(one.written_count, 1))
        return float(len(episodes) * self.length)

    async def _penalty(self, one: Seen, scorers: Scorers) -> Array:
        """kl (log q - log p_base) of each token."""
        if self.kl == 0:
            return np.zeros_like(one.mask)
        base = np.asarray(await scorers.base.logprobs(one.trajectory.tokens))
        return self.kl * one.mask * (one.written - base)

    def _told_penalty(self, seen: Sequence[Seen], penalties: Sequence[Array]) -> dict[str, float]:
        if self.kl == 0 or not seen:
            return {}
        drift = np.concatenate([p[one.mask > 0] for one, p in zip(seen, penalties, strict=True)]) / self.kl
        k3 = np.expm1(-drift) + drift
        return {"kl_base": float(drift.mean()), "kl_base_k3": float(k3.mean())} if drift.size else {}

    def _finished(self, datum: tinker.Datum, one: Seen) -> tinker.Datum:
        """Room for what a loss wants beside log-probabilities and advantages."""
        return datum


def centred(rewards: Sequence[float]) -> Array:
    """Each less the mean of all."""
    values = np.asarray(rewards, np.float64)
    return values - values.mean() if values.size else values


def whitened(rewards: Sequence[float]) -> list[float]:
    """The same in units of their deviation."""
    return list((centred(rewards) / (np.std(rewards) + 1e-6)).tolist())
