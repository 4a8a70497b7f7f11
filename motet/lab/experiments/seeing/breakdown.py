"""Where the time went: a bar for each experiment's mean step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from motet.lab.experiments.progress import Seconds
from motet.lab.experiments.seeing.folder import SeenExperiment
from motet.lab.experiments.seeing.html import Markup, tag

KINDS = ("sampling", "training", "publishing", "waiting")


def mean_seconds(one: SeenExperiment) -> Seconds:
    """Of a step. It has steps."""
    spent = [asdict(step.seconds) for step in one.steps]
    return Seconds(**{kind: sum(step[kind] for step in spent) / len(spent) for kind in KINDS})


def time_bars(experiments: Sequence[SeenExperiment]) -> Markup:
    """One scale for all, so that lengths can be compared."""
    means = {one.name: mean_seconds(one) for one in experiments if one.steps}
    if not means:
        return tag("p", "No step was finished.", class_="quiet")
    longest = max(one.total for one in means.values()) or 1.0
    legend = [tag("span", tag("i", class_=f"part {kind}"), kind) for kind in KINDS]
    rows = []
    for name, mean in means.items():
        parts = [_part(kind, seconds, longest) for kind, seconds in asdict(mean).items()]
        bar = tag("div", *parts, class_="bar")
        rows += [tag("span", name, class_="name"), bar, tag("span", f"{mean.total:.2f} s", class_="number")]
    return tag("div", tag("p", *legend, class_="legend"), tag("div", *rows, class_="bars"))


def _part(kind: str, seconds: float, longest: float) -> Markup:
    width = f"width:{100 * seconds / longest:.2f}%"
    return tag("i", class_=f"part {kind}", style=width, title=f"{kind} {seconds:.3f} s a step")
