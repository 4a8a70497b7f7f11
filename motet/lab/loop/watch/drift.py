"""How far a candidate has gone from the base model and from what serves: alarms, a line each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from motet.lab.loop.gate.exam import Sat
from motet.lab.loop.settings import Drift

REFUSALS = re.compile(
    r"\b(I can(?:no|')t|I am (?:not able|unable)|I'm (?:not able|unable|sorry)|as an AI)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Course:
    """Of a version's answers to an exam."""

    kl: float  # nats a token: how much likelier its own answers are to it than to the base model
    surprise: float  # nats a token: minus the mean log-probability of its own answers; falls to 0 as it says one thing
    length: float  # tokens an answer
    refusals: float  # part of the answers


def course_of(answers: Sequence[Sat]) -> Course:
    """Means over tokens, and over answers. There is at least one."""
    tokens = max(sum(one.tokens for one in answers), 1)
    kl = sum((one.own - one.base) * one.tokens for one in answers) / tokens
    surprise = -sum(one.own * one.tokens for one in answers) / tokens
    refused = sum(bool(REFUSALS.search(one.text)) for one in answers)
    return Course(kl, surprise, tokens / len(answers), refused / len(answers))


def alarms(before: Course, after: Course, drift: Drift) -> list[str]:
    """What is beyond its bound."""
    found = []
    if after.kl > drift.kl:
        found.append(f"{after.kl:.2f} nats a token from the base model, more than {drift.kl:g}")
    if after.surprise < drift.surprise:
        found.append(f"answers hold {after.surprise:.3f} nats a token, less than {drift.surprise:g}: it says one thing")
    if not 1 / drift.length <= after.length / max(before.length, 1.0) <= drift.length:
        found.append(
            f"answers of {after.length:.0f} tokens, {before.length:.0f} before: more than {drift.length:g} times"
        )
    if after.refusals - before.refusals > drift.refusals:
        found.append(f"{after.refusals:.0%} of the answers refuse, {before.refusals:.0%} before")
    return found
