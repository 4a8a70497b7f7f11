"""What was found wrong, each once: since when, until when, and what to try."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from motet.lab.experiments.progress import Finding
from motet.lab.experiments.seeing.folder import SeenExperiment
from motet.lab.experiments.seeing.html import Markup, tag


@dataclass(frozen=True)
class Spell:
    """A finding for as long as it was there. `finding` is as it was seen last."""

    experiment: str
    finding: Finding
    until: int  # step
    still: bool  # to the last step


def spells(one: SeenExperiment) -> Iterator[Spell]:
    """In the order in which they came."""
    last = one.steps[-1].step if one.steps else 0
    for finding in one.noted:
        yield Spell(one.name, finding, last, still=True)
    found: dict[tuple[str, int], Spell] = {}
    for step in one.steps:
        for finding in step.findings:
            found[finding.name, finding.since] = Spell(one.name, finding, step.step, step.step == last)
    yield from found.values()


def draw_findings(experiments: Sequence[SeenExperiment]) -> Markup:
    """Errors first."""
    rows = [
        _row(one.name, "ended with an error", one.error, "error.txt in its folder has the whole of it")
        for one in experiments
        if one.error
    ]
    for one in experiments:
        rows += [
            _row(spell.experiment, _when(spell), spell.finding.what, spell.finding.advice) for spell in spells(one)
        ]
    if not rows:
        return tag("p", "Nothing was found wrong.", class_="quiet")
    return tag("ul", *rows, class_="findings")


def _when(one: Spell) -> str:
    since = one.finding.since
    if since == 0:
        return "from the beginning"
    if one.until == since:
        return f"step {since}"
    return f"since step {since}" if one.still else f"steps {since} to {one.until}"


def _row(name: str, when: str, what: str, advice: str) -> Markup:
    told = tag("span", what, class_="what")
    return tag("li", tag("b", name), tag("span", when, class_="quiet"), told, tag("span", advice, class_="advice"))
