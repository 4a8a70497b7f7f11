"""Promote or refuse: better on what it should have learned, and not worse elsewhere by more than a margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from motet.lab.loop.gate.paired import EPSILON, Difference, compare
from motet.lab.loop.judges import Verdict


@dataclass(frozen=True)
class SetResult:
    """Both versions' scores on one set of questions, in the same order. target: what the candidate has learned for."""

    name: str
    role: Literal["target", "guard"]
    before: Sequence[float]
    after: Sequence[float]
    margin: float  # by how much it may be worse
    sure: bool = False  # it must be surely no worse than that, not only as far as was measured


def judge(results: Sequence[SetResult], level: float, seed: int) -> Verdict:
    """A candidate that changes nothing is promoted with a chance of `level` at most, whatever the sets: of several
    targets each has its part of it (Bonferroni). No set may be worse than its margin, or surely so at `level`."""
    compared = {one.name: compare(one.before, one.after, level, seed) for one in results if one.before}
    targets = [one for one in results if one.role == "target" and one.before]
    if not targets:
        return Verdict(False, "no held-out feedback to measure it on: give more, or a larger held_out")
    figures = {f"{name} {what}": getattr(one, what) for name, one in compared.items() for what in ("before", "after")}
    better = [one for one in targets if compared[one.name].chance_above(0.0, seed) <= level / len(targets)]
    worse = [one for one in results if one.before and _may_be_worse(one, compared[one.name], level, seed)]
    if worse:
        told = "; ".join(f"{_told(one.name, compared[one.name])}, margin {one.margin:g}" for one in worse)
        return Verdict(False, f"worse elsewhere: {told}", figures)
    told = "; ".join(_told(one.name, compared[one.name]) for one in better or targets)
    return Verdict(bool(better), f"better: {told}" if better else f"not surely better: {told}", figures)


def _may_be_worse(one: SetResult, difference: Difference, level: float, seed: int) -> bool:
    measured = difference.mean < -one.margin - EPSILON
    return measured or (one.sure and difference.chance_above(-one.margin, seed) > level)


def _told(name: str, one: Difference) -> str:
    return (
        f"{one.before:.2f} to {one.after:.2f} on {one.questions} of {name} "
        f"({one.mean:+.2f}, {one.low:+.2f} to {one.high:+.2f})"
    )
