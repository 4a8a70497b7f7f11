"""What other models think of each token that the policy wrote, as a part of the token's advantage.

    A_it = A_i - sum_j weight_j d_jt,     d_jt = log p_now(o_it | o_i<t) - log p_j(o_it | read_j, o_i<t)

A penalty on leaving the base model, a teacher's judgement, and the policy's own with a demonstration in front of it are
all of this form: the expected gradient of a term is that of weight KL(p_now, p_j), token by token.

Told of each judge, in nats a token, are two estimates of that KL (Schulman, "Approximating KL Divergence", 2020), both
unbiased for what p_now wrote: k1 = mean(d), which is what the advantage holds and may be negative by chance, and k3 =
mean(exp(-d) - 1 + d), which never is and varies less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from motet.lab.algorithms.base import Array, Scorer
from motet.lab.algorithms.corrections import Seen
from motet.lab.envs.protocol import Trajectory

Reading = Callable[[Trajectory], Sequence[int]]  # what a judge reads before the first token that was written


def as_it_was(one: Trajectory) -> Sequence[int]:
    """What the policy itself read."""
    return one.turns[0].read


@dataclass(frozen=True)
class Judge:
    """A model whose opinion counts. `name` is for the record."""

    name: str
    weight: float
    scorer: Scorer
    reads: Reading = as_it_was

    async def drift(self, one: Seen) -> Array:
        """d of each token that was written, 0 of what was read; T."""
        played = one.trajectory
        given = await opinion(self.scorer, played.tokens, len(played.turns[0].read), self.reads(played))
        return one.mask * (one.present - given)


async def opinion(judge: Scorer, tokens: Sequence[int], read: int, instead: Sequence[int]) -> Array:
    """The log-probabilities that a judge gives to tokens, having read `instead` in place of the first `read` of them;
    0 for these; T."""
    scored = await judge.logprobs([*instead, *tokens[read:]])
    return np.concatenate([np.zeros(read), np.asarray(scored[len(instead) :])])


def told(name: str, seen: Sequence[Seen], drifts: Sequence[Array]) -> dict[str, float]:
    """k1 and k3 over all written tokens."""
    parts = [drift[one.mask > 0] for one, drift in zip(seen, drifts, strict=True)]
    drift = np.concatenate([np.zeros(0), *parts])
    if not drift.size:
        return {}
    k3 = np.expm1(np.minimum(-drift, 50.0)) + drift
    return {name: float(drift.mean()), f"{name}_k3": float(k3.mean())}
