"""What nobody should have to look for: after each step, one line for whatever is wrong, with what to try.

A check looks at the steps so far, the newest last, and says what it sees, or nothing. It is found since the step from
which on it was seen without a break.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from motet.lab.experiments.progress import Finding, StepMetrics

MISMATCH_BOUND = 0.02  # mean |trainer - sampler| log-probability; bfloat16 gives a few thousandths
STALENESS_BOUND = 0.2  # mean |newest - writing version| log-probability
LEAP = 10.0  # times the median of the steps before
COLLAPSED = 0.1  # of the first steps' entropy
SETTLED = 5  # steps before a trend is spoken of
STILL = 8  # steps
UNREADABLE = ("no call", "no answer")  # outcomes, as environments call them
CUT = {"truncated", "out of turns", "out of tokens", "out of time"}  # by a limit of the environment's
SATURATED = 0.95  # a reward that is as good as it can be may stand still


@dataclass(frozen=True)
class Check:
    """`see`: the steps so far, the newest last -> what is wrong with the newest, or None."""

    name: str
    see: Callable[[Sequence[StepMetrics]], str | None]
    advice: str


def not_finite(steps: Sequence[StepMetrics]) -> str | None:
    now = steps[-1]
    numbers = {"loss": now.loss, "gradient norm": now.grad_norm, "reward": now.reward}
    wrong = [name for name, number in numbers.items() if number is not None and not math.isfinite(number)]
    return f"{' and '.join(wrong)} not finite" if wrong else None


def no_step(steps: Sequence[StepMetrics]) -> str | None:
    return f"the server took no step: {steps[-1].refused}" if steps[-1].refused else None


def gradient_leaps(steps: Sequence[StepMetrics]) -> str | None:
    norms = [one.grad_norm for one in steps if one.grad_norm]
    if len(norms) <= SETTLED or steps[-1].grad_norm is None:
        return None
    usual = median(norms[:-1])
    return f"gradient norm {norms[-1]:.3g}, usually {usual:.3g}" if norms[-1] > LEAP * usual else None


def nothing_differs(steps: Sequence[StepMetrics]) -> str | None:
    now = steps[-1]
    return "no group had different rewards" if now.groups and now.groups_left_out == now.groups else None


def all_cut(steps: Sequence[StepMetrics]) -> str | None:
    outcomes = steps[-1].outcomes
    return f"every episode was cut: {', '.join(outcomes)}" if outcomes and set(outcomes) <= CUT else None


def hardly_a_call(steps: Sequence[StepMetrics]) -> str | None:
    now, episodes = steps[-1], sum(steps[-1].outcomes.values())
    if episodes and sum(now.outcomes.get(one, 0) for one in UNREADABLE) > 0.9 * episodes:
        return "hardly a tool call or an answer could be read"
    if now.torn_calls > 0.9 * (now.calls + now.torn_calls):
        return f"{now.torn_calls} of {now.calls + now.torn_calls} tool calls could not be read"
    return None


def empty_completions(steps: Sequence[StepMetrics]) -> str | None:
    now, episodes = steps[-1], sum(steps[-1].outcomes.values())
    return f"{now.empty} of {episodes} completions are empty" if episodes and now.empty > 0.5 * episodes else None


def entropy_collapses(steps: Sequence[StepMetrics]) -> str | None:
    known = [one.entropy for one in steps if one.entropy is not None]
    if len(known) <= SETTLED or steps[-1].entropy is None or steps[-1].reward >= SATURATED:
        return None
    first = median(known[:SETTLED])
    return f"entropy {known[-1]:.3g} nats a token, {first:.3g} at first" if known[-1] < COLLAPSED * first else None


def reward_stands_still(steps: Sequence[StepMetrics]) -> str | None:
    last = [one.reward for one in steps[-STILL:] if one.groups]
    if len(last) < STILL or max(last) - min(last) > 1e-9 or last[-1] >= SATURATED:
        return None
    return f"the reward has been {last[-1]:.3g} for {STILL} steps"


def nothing_trained(steps: Sequence[StepMetrics]) -> str | None:
    empty = steps[-1].trained_tokens == 0 and nothing_differs(steps) is None
    return "the loss mask is empty: no token had a weight" if empty else None


def lanes_disagree(steps: Sequence[StepMetrics]) -> str | None:
    mean = steps[-1].mismatch_mean
    return f"sampler and trainer disagree by {mean:.3f} a token" if mean is not None and mean > MISMATCH_BOUND else None


def too_stale(steps: Sequence[StepMetrics]) -> str | None:
    now = steps[-1]
    drift = now.algorithm.get("staleness_mean", 0.0)
    if now.dropped > now.groups:
        return f"{now.dropped} groups were dropped as too stale, {now.groups} were used"
    return f"what is trained on is stale by {drift:.2f} a token" if drift > STALENESS_BOUND else None


CHECKS = (
    Check("not-finite", not_finite, "lower learning_rate, or set grad_clip = 1.0"),
    Check("no-step", no_step, "lower learning_rate, or set grad_clip = 1.0"),
    Check("gradient-leap", gradient_leaps, "set grad_clip = 1.0, or lower learning_rate"),
    Check("no-signal", nothing_differs, "easier problems, more samples, or a higher temperature"),
    Check("all-cut", all_cut, "raise turn_tokens, or turns and what begins with episode_"),
    Check("no-calls", hardly_a_call, "more examples, or the other format"),
    Check("empty", empty_completions, "look at the chat template and the stop strings with `motet show`"),
    Check("entropy-collapse", entropy_collapses, "lower learning_rate, add kl, or raise clip_high"),
    Check("reward-still", reward_stands_still, "look at rollouts with `motet show`; the problems may be too hard"),
    Check("nothing-trained", nothing_trained, "look at the mask, or raise correction_cap"),
    Check("mismatch", lanes_disagree, 'set reference = "trainer" and correction = "truncate"'),
    Check("stale", too_stale, 'lower max_staleness, or set correction = "truncate"'),
)
NAMES = tuple(check.name for check in CHECKS)
EARLY = ("rate", "template", "temperature")  # found before the first step, in `starting`


def find(steps: Sequence[StepMetrics]) -> list[Finding]:
    """The findings of the newest step. The steps before it carry their own."""
    before = {one.name: one for one in steps[-2].findings} if len(steps) > 1 else {}
    now = steps[-1].step
    found = []
    for check in CHECKS:
        if (what := check.see(steps)) is not None:
            since = before[check.name].since if check.name in before else now
            found.append(Finding(check.name, what, since, check.advice))
    return found


def with_findings(history: Sequence[StepMetrics], step: StepMetrics) -> StepMetrics:
    """The step with what was found in it, after those before it."""
    return replace(step, findings=find([*history, step]))


def stops(stop_on: str, found: Sequence[Finding], after: int) -> Finding | None:
    """The finding that an experiment was told to stop on (`any`, or names by commas), where it began after a step."""
    wanted = {one.strip() for one in stop_on.split(",")}
    new = (one for one in found if one.since > after)
    return next((one for one in new if stop_on == "any" or one.name in wanted), None)
