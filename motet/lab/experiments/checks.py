"""What nobody should have to look for: each check is one line that says what, and what to try."""

from __future__ import annotations

import math
from collections import Counter

MISMATCH_BOUND = 0.02  # mean |trainer - sampler| log-probability; bfloat16 gives a few thousandths


def find(
    outcomes: Counter[str], groups: int, left_out: int, numbers: list[float], mismatch_mean: float | None
) -> list[str]:
    """The findings of one step. `numbers` are those that must be finite."""
    episodes = sum(outcomes.values())
    findings = []
    if not all(math.isfinite(number) for number in numbers):
        findings.append("NaN or infinite: lower learning_rate")
    if outcomes["truncated"] == episodes:
        findings.append("every episode was cut: raise turn_tokens")
    elif outcomes["no call"] > 0.9 * episodes:
        findings.append("hardly a call was read: more examples, or the other format")
    if left_out == groups:
        findings.append("no group had different rewards: nothing was learned")
    if mismatch_mean is not None and mismatch_mean > MISMATCH_BOUND:
        findings.append(f"sampler and trainer disagree ({mismatch_mean:.3f} a token)")
    return findings
