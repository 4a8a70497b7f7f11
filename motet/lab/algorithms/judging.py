"""What other models think of each token that the policy wrote, as a part of the token's advantage.

    A_it = A_i - sum_j weight_j (d_jt - mean d_j),     d_jt = log p_now(o_it | o_i<t) - log p_j(o_it | read_j, o_i<t)

A penalty on leaving the base model, a teacher's judgement, and the policy's own with a demonstration in front of it are
all of this form: the expected gradient of a term is that of weight KL(p_now, p_j), token by token. The mean is over
what was written in the step, and a baseline (Williams 1992): it leaves the expectation as it is. Without it a judge who
is far away pushes down whatever was written: on `tests/lab/algorithms/letters.py`, with 48 episodes of 3 tokens a step,
a student wrote what its teacher writes after 5 steps; without, after 7 and more than 14, the teacher being 5 and 10
nats a token away.

Told of each judge, in nats a token, are two estimates of that KL (Schulman, "Approximating KL Divergence", 2020), both
unbiased for what p_now wrote: k1 = mean(d), which is what the advantage holds and may be negative by chance, and k3 =
mean(exp(-d) - 1 + d), which never is and varies less.
"""

from __future__ import annotations

import asyncio
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
        given = await scored(self.scorer, played.tokens, len(played.turns[0].read), self.reads(played))
        return one.mask * (one.present - given)


@dataclass(frozen=True, eq=False)
class Opinion:
    """What a judge says of a step."""

    penalties: list[Array]  # of each episode, to be taken from its advantage: weight (d - mean d), T
    told: dict[str, float]  # k1 and k3


async def ask(judge: Judge, seen: Sequence[Seen]) -> Opinion:
    """A judge's opinion of all episodes of a step."""
    drifts = await asyncio.gather(*(judge.drift(one) for one in seen))
    written = np.concatenate([np.zeros(0), *(d[one.mask > 0] for one, d in zip(seen, drifts, strict=True))])
    if not written.size:
        return Opinion(list(drifts), {})
    k1 = float(written.mean())
    k3 = float((np.expm1(np.minimum(-written, 50.0)) + written).mean())
    penalties = [judge.weight * one.mask * (drift - k1) for one, drift in zip(seen, drifts, strict=True)]
    return Opinion(penalties, {judge.name: k1, f"{judge.name}_k3": k3})


async def scored(judge: Scorer, tokens: Sequence[int], read: int, instead: Sequence[int]) -> Array:
    """The log-probabilities that a judge gives to tokens, having read `instead` in place of the first `read` of them;
    0 for these; T."""
    given = await judge.logprobs([*instead, *tokens[read:]])
    return np.concatenate([np.zeros(read), np.asarray(given[len(instead) :])])
