"""Off-policy data set right: importance weights, truncated or masked, by token or by sequence.

Two reasons why the policy that is trained is not the one that wrote, measured apart on written tokens:

    staleness_t = log p_now(o_t) - log q(o_t)         the newest version against the one that wrote, both as sampled
    mismatch_t  = log p_trainer(o_t) - log p_now(o_t) trainer against sampler, at the same weights

Both compare what was sampled at the experiment's temperature with what is trained, which is always at 1: where the
temperature is another one, p_now is asked for also of what is fresh, so that mismatch stays what it says, and the first
difference holds what the temperature did; a correction takes that out too.

With w_t = exp(staleness_t), or with the trainer as the reference w_t = exp(staleness_t + mismatch_t); by `sequence`
w = prod_t w_t, the weight of the whole episode; `geometric` w = (prod_t w_t)^(1/|o|), which does not grow with length
(as in GSPO, arXiv:2507.18071):

    truncate:  w <- min(w, cap)                       (truncated importance sampling: Ionides 2008; Espeholt et al.
                                                       2018, IMPALA, arXiv:1802.01561; Yao et al. 2025 for LLMs)
    mask:      w <- w if 1/cap <= w <= cap, else 0    (masked importance sampling, as IcePop, Ling Team 2025)

The weight multiplies the advantage, and the clipped ratio of the loss is taken against the reference instead of the
policy that wrote (Hilton et al. 2021, decoupled PPO, arXiv:2110.00641).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from motet.lab.algorithms.base import Array, Scorers
from motet.lab.envs.protocol import Trajectory

Correction = Literal["none", "truncate", "mask"]
Level = Literal["token", "sequence", "geometric"]
Reference = Literal["sampler", "trainer"]


@dataclass(frozen=True, eq=False)
class Seen:
    """A trajectory as it was written and as it is seen now. Arrays over its T tokens, 0 where a token was read."""

    trajectory: Trajectory
    mask: Array
    written: Array  # log q, of the version that wrote
    present: Array  # log p_now, of the newest version
    reference: Array  # log-probabilities that the loss takes for the old policy's

    @property
    def staleness(self) -> Array:
        """Of the written tokens alone."""
        return (self.present - self.written)[self.mask > 0]


async def see(
    trajectories: Sequence[Trajectory], scorers: Scorers, correction: Correction, by: Reference
) -> list[Seen]:
    """Look at trajectories with today's eyes: free for what the newest version wrote, unless `by` the trainer."""
    return list(await asyncio.gather(*(_see(one, scorers, correction, by) for one in trajectories)))


async def _see(one: Trajectory, scorers: Scorers, correction: Correction, by: Reference) -> Seen:
    mask = np.asarray(one.mask, np.float64)
    written = np.asarray(one.logprobs, np.float64)
    present = written
    if one.version != scorers.version or scorers.temperature != 1.0:
        present = mask * np.asarray(await scorers.current.logprobs(one.tokens))
    reference = written if correction == "none" else present
    if correction != "none" and by == "trainer":
        reference = mask * np.asarray(await scorers.trainer.logprobs(one.tokens))
    return Seen(one, mask, written, present, reference)


def weights(seen: Seen, correction: Correction, level: Level, cap: float) -> Array:
    """What each token's advantage is multiplied with; 1 without a correction."""
    if correction == "none":
        return np.ones_like(seen.mask)
    drift = seen.reference - seen.written
    if level != "token":
        count = max(seen.mask.sum(), 1.0) if level == "geometric" else 1.0
        drift = np.full_like(drift, drift.sum() / count)
    weight = np.exp(np.minimum(drift, 50.0))
    if correction == "truncate":
        return np.minimum(weight, cap)
    return np.where((weight >= 1 / cap) & (weight <= cap), weight, 0.0)


def told(seen: Sequence[Seen], used: Sequence[Array], version: int) -> dict[str, float]:
    """What there is to say: how far off, in versions and in log-probabilities, and what the weights did."""
    stale = [one for one in seen if one.trajectory.version != version]
    metrics = {"stale_episodes": float(len(stale))}
    if stale:
        drift = np.concatenate([one.staleness for one in stale])
        metrics["staleness_versions"] = float(max(version - one.trajectory.version for one in stale))
        metrics["staleness_mean"] = float(np.abs(drift).mean()) if drift.size else 0.0
    applied = np.concatenate([w[one.mask > 0] for one, w in zip(seen, used, strict=True)] or [np.ones(0)])
    if applied.size and not np.all(applied == 1.0):
        metrics["correction_weight"] = float(applied.mean())
        metrics["correction_masked"] = float((applied == 0.0).mean())
    return metrics
