"""Held-out accuracies with their standard errors, and experiments compared pair by pair."""

from __future__ import annotations

from collections.abc import Sequence

from motet.lab.experiments.progress import Accuracy
from motet.lab.experiments.seeing.compare import Paired, compare, gain
from motet.lab.experiments.seeing.folder import SeenExperiment
from motet.lab.experiments.seeing.html import EMPTY, Markup, join, tag
from motet.lab.experiments.seeing.scale import Scale, bounds

WIDTH, HEIGHT = 220.0, 22.0
MOST_IN_MATRIX = 12


class Unit:
    """How an accuracy is written: in percent where all lie between 0 and 1, else as the number it is."""

    def __init__(self, accuracies: Sequence[Accuracy]) -> None:
        self.percent = all(0 <= one.mean <= 1 for one in accuracies)

    def number(self, value: float, sign: bool = False) -> str:
        plus = "+" if sign else ""
        told = f"{100 * value:{plus}.1f}" if self.percent else f"{value:{plus}.3g}"
        return told.replace("-", "−")

    def with_error(self, value: float, error: float, sign: bool = False) -> str:
        return f"{self.number(value, sign)} ± {self.number(error)}"


def unit_of(experiments: Sequence[SeenExperiment]) -> Unit:
    return Unit([measured.accuracy for one in experiments for measured in one.measured])


def accuracy_table(experiments: Sequence[SeenExperiment]) -> Markup:
    """At the start, at the end, and what came to it; the whiskers are one standard error to both sides."""
    known = [one for one in experiments if one.measured]
    if not known:
        return tag("p", "Nothing was measured on held-out problems.", class_="quiet")
    unit = unit_of(known)
    edges = [m.accuracy.mean + way * m.accuracy.error for one in known for m in one.measured for way in (-1, 0, 1)]
    low, high = (0.0, 1.0) if unit.percent else bounds(edges)
    scale = Scale(low, high, 6, WIDTH - 6)
    sign = ", %" if unit.percent else ""
    heads = ("experiment", f"start{sign}", "", f"end{sign}", "gained", "95 % interval", "problems")
    rows = [tag("tr", *_cells(one, unit, scale)) for one in known]
    head = tag("thead", tag("tr", *(tag("th", one) for one in heads)))
    return tag("div", tag("table", head, tag("tbody", *rows), class_="wide"), class_="scroll")


def _cells(one: SeenExperiment, unit: Unit, scale: Scale) -> list[Markup]:
    first, last, won = one.measured[0].accuracy, one.measured[-1].accuracy, gain(one)
    measured_end = len(one.measured) > 1
    return [
        tag("th", one.name, scope="row"),
        tag("td", unit.with_error(first.mean, first.error), class_="number"),
        tag("td", _walk(first, last, scale)),
        tag("td", unit.with_error(last.mean, last.error) if measured_end else "–", class_="number strong"),
        tag("td", unit.with_error(won.difference, won.error, sign=True) if won else "–", class_="number"),
        tag("td", _interval(won, unit) if won else "–", class_="number"),
        tag("td", str(last.problems), class_="number quiet"),
    ]


def _walk(first: Accuracy, last: Accuracy, scale: Scale) -> Markup:
    """From a hollow dot to a full one."""
    y = HEIGHT / 2
    marks = [
        tag("line", x1=scale(scale.low), x2=scale(scale.high), y1=y, y2=y, class_="grid"),
        tag("line", x1=scale(first.mean), x2=scale(last.mean), y1=y, y2=y, class_="way"),
    ]
    for one, kind in ((first, "held-out"), (last, "dot")):
        marks.append(
            tag("line", x1=scale(one.mean - one.error), x2=scale(one.mean + one.error), y1=y, y2=y, class_="whisker")
        )
        marks.append(tag("circle", cx=scale(one.mean), cy=y, r=3.5, class_=kind))
    return tag("svg", *marks, viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", class_="walk", aria_hidden="true")


def _interval(one: Paired, unit: Unit) -> str:
    return f"{unit.number(one.low, sign=True)} to {unit.number(one.high, sign=True)}"


def paired_matrix(experiments: Sequence[SeenExperiment]) -> Markup:
    """Every experiment against every other: how much more the row got than the column."""
    known = [one for one in experiments if one.measured and one.measured[-1].accuracy.each]
    if len(known) < 2:
        return tag("p", "Two experiments with held-out problems are needed for a comparison.", class_="quiet")
    columns = known if len(known) <= MOST_IN_MATRIX else known[:1]
    unit = unit_of(known)
    heads = [tag("th"), *(tag("th", one.name, scope="col") for one in columns)]
    rows = [
        tag("tr", tag("th", row.name, scope="row"), *(_against(row, column, unit) for column in columns))
        for row in known
    ]
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="matrix")
    return join(tag("div", table, class_="scroll"), _how_many(len(known), len(columns)))


def _against(row: SeenExperiment, column: SeenExperiment, unit: Unit) -> Markup:
    if row is column:
        return tag("td", class_="same")
    found = compare(column, row)
    if found is None:
        return tag("td", "other problems", class_="quiet")
    shown = tag("span", unit.with_error(found.difference, found.error, sign=True))
    interval = tag("small", _interval(found, unit))
    counts = tag("small", f"better on {found.better}, worse on {found.worse}")
    return tag("td", shown, interval, counts, class_="clear" if found.clear else None)


def _how_many(rows: int, columns: int) -> Markup:
    pairs = rows * (rows - 1) // 2 if columns > 1 else rows - 1
    if pairs < 5:
        return EMPTY
    told = f"Of {pairs} pairs about {pairs / 20:.1f} would look clear by chance where nothing differs."
    return tag("p", told, class_="quiet")
