"""What all policy-gradient algorithms share: groups of episodes in, weighted tokens out.

    L = - sum_i sum_t  n_i  w_it  f(rho_it, A_it),     A_it = A_i - sum_j weight_j (d_jt - mean d_j)

A_i is the algorithm's own (`advantages`), d_jt what another model thinks of a token (see `judging`; the base model's
opinion with weight `kl` is the penalty), f the loss of the API (clipped or not), w the correction for off-policy data
(see `corrections`), n_i the normaliser: 1/M over tokens (M written in the step, as in DAPO, arXiv:2503.14476), 1/(N
|o_i|) over N episodes (as GRPO was published), or 1/(N L) with a constant L (Dr. GRPO, arXiv:2503.20783). The trainer
sums, so n is divided in here, and one learning rate serves batches of any size.

A group whose rewards are all equal has no gradient of its own: it is left out and counted, but counts in M and N, so
that the few groups that still differ late in training do not get a louder voice (AdamW remembers the earlier steps).
An episode without any advantage costs no pass; a step without one is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import tinker
from pydantic import Field
from tinker.types import LossFnType

from motet.lab.algorithms.base import AlgorithmSettings, Array, Batch, Lesson, Scorers
from motet.lab.algorithms.corrections import Correction, Level, Reference, Seen, see, told, weights
from motet.lab.algorithms.datums import policy_datum
from motet.lab.algorithms.judging import Judge, ask
from motet.lab.envs.protocol import Group, Trajectory

Average = Literal["tokens", "episodes", "constant"]


@dataclass(frozen=True, eq=False)
class Graded:
    """An episode and how much better it was than expected."""

    trajectory: Trajectory
    group: int  # its place in the step
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

    def judges(self, scorers: Scorers) -> list[Judge]:
        """Whose opinions of each token count."""
        return [Judge("kl_base", self.kl, scorers.base)] if self.kl > 0 else []

    def heard(self, material: Sequence[Group]) -> Sequence[Group]:
        """The groups that the mean is taken over."""
        return material

    @property
    def by_group(self) -> bool:
        """Is a group its own baseline? Then one episode alone teaches nothing."""
        return True

    # -- what they share ----------------------------------------------------------------------------------------

    @property
    def least_samples(self) -> int:
        return 2 if self.by_group and self.kl == 0 else 1

    def teaches(self, group: Group) -> bool:
        """Has it a gradient?"""
        return self.kl > 0 or not self.by_group or len(set(self.rewards(group))) > 1

    async def batch(self, material: Sequence[Group], scorers: Scorers) -> Batch:
        """The datums of one step."""
        graded, counts = self._graded(material), self._counts(material)
        seen = await see([one.trajectory for one in graded], scorers, self.correction, self.reference)
        opinions = [await ask(judge, seen) for judge in self.judges(scorers)]
        corrections = [weights(one, self.correction, self.correction_level, self.correction_cap) for one in seen]
        lessons, taught = [], set[int]()
        for place, (grade, one, weight) in enumerate(zip(graded, seen, corrections, strict=True)):
            gains = one.mask * (grade.advantage - sum(opinion.penalties[place] for opinion in opinions))
            if gains.any():
                taught.add(grade.group)
            advantages = weight * gains / counts.of(one.trajectory)
            if advantages[1:].any():
                datum = policy_datum(one.trajectory.tokens, one.reference, advantages)
                lessons.append(Lesson(self._finished(datum, one), one.present[1:]))
        metrics = told(seen, corrections, scorers.version)
        for opinion in opinions:
            metrics |= opinion.told
        return Batch(lessons, self.api_loss, self.api_config, len(material) - len(taught), metrics=metrics)

    def _graded(self, material: Sequence[Group]) -> list[Graded]:
        """Every episode of a group that teaches, with its advantage."""
        computed = self.advantages([self.rewards(group) for group in material])
        return [
            Graded(one, place, advantage)
            for place, (group, own) in enumerate(zip(material, computed, strict=True))
            if self.teaches(group)
            for one, advantage in zip(group.trajectories, own, strict=True)
        ]

    def _counts(self, material: Sequence[Group]) -> Counts:
        episodes = [one for group in self.heard(material) for one in group.trajectories]
        return Counts(self.average, len(episodes), sum(one.written_count for one in episodes), self.length)

    def _finished(self, datum: tinker.Datum, one: Seen) -> tinker.Datum:
        """Room for what a loss wants beside log-probabilities and advantages."""
        return datum


@dataclass(frozen=True)
class Counts:
    """What the mean is taken over."""

    average: Average
    episodes: int
    tokens: int  # written in all
    length: int

    def of(self, one: Trajectory) -> float:
        """1 / n of an episode."""
        if self.average == "tokens":
            return float(max(self.tokens, 1))
        return float(self.episodes * (max(one.written_count, 1) if self.average == "episodes" else self.length))


def centred(rewards: Sequence[float]) -> Array:
    """Each less the mean of all; exactly 0 where they are equal, whatever rounding says of their mean."""
    values = np.asarray(rewards, np.float64)
    return values - values.mean() if len(set(rewards)) > 1 else np.zeros_like(values)


def whitened(rewards: Sequence[float]) -> list[float]:
    """The same in units of their deviation."""
    return list((centred(rewards) / (np.std(rewards) + 1e-6)).tolist()) if len(rewards) else []


def over_the_step(
    groups: Sequence[Sequence[float]], made: Callable[[Sequence[float]], Iterable[float]]
) -> list[list[float]]:
    """Advantages that are `made` of all rewards of a step at once, group by group again."""
    given = iter(made([reward for rewards in groups for reward in rewards]))
    return [[float(next(given)) for _ in rewards] for rewards in groups]
