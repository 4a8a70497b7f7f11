"""Curves as small multiples: a panel for each family of experiments, the others faint behind it.

A family differs by nothing but the seed: its line is the mean, its band reaches from the lowest seed to the highest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from motet.lab.experiments.progress import StepMetrics
from motet.lab.experiments.seeing.folder import SeenExperiment
from motet.lab.experiments.seeing.html import EMPTY, Markup, join, tag
from motet.lab.experiments.seeing.scale import Scale, bounds, label

WIDTH, HEIGHT = 260.0, 150.0
LEFT, RIGHT, TOP, BOTTOM = 30.0, 8.0, 8.0, 20.0
Measure = Callable[[StepMetrics], float | None]
Families = Mapping[str, Sequence[SeenExperiment]]


@dataclass(frozen=True)
class Point:
    """Of a family, after a step: over all seeds that came so far."""

    step: int
    mean: float
    low: float
    high: float
    seeds: int


def spread(members: Sequence[SeenExperiment], measure: Measure) -> list[Point]:
    """One point a step, of what is finite."""
    by_step: dict[int, list[float]] = {}
    for one in members:
        for step in one.steps:
            value = measure(step)
            if value is not None and math.isfinite(value):
                by_step.setdefault(step.step, []).append(value)
    return [
        Point(step, sum(values) / len(values), min(values), max(values), len(values))
        for step, values in sorted(by_step.items())
    ]


def panels(families: Families, measure: Measure, held_out: bool = False) -> Markup:
    """All panels of one measure on the same axes. Nothing where nothing was measured."""
    points = {name: spread(members, measure) for name, members in families.items()}
    values = [edge for line in points.values() for point in line for edge in (point.low, point.high)]
    if not values:
        return EMPTY
    if held_out:
        values += [m.accuracy.mean for members in families.values() for one in members for m in one.measured]
    steps = [point.step for line in points.values() for point in line]
    x = Scale(0, max(steps), LEFT, WIDTH - RIGHT)
    low, high = bounds(values, shares=held_out)
    y = Scale(low, high, HEIGHT - BOTTOM, TOP)
    drawn = []
    for name, members in families.items():
        others = [_line(line, x, y, "other") for other, line in points.items() if other != name]
        marks = [_whisker(one, x, y) for one in members] if held_out else []
        picture = _picture(name, x, y, join(*others, _band(points[name], x, y), _line(points[name], x, y), *marks))
        drawn.append(tag("figure", tag("figcaption", name), picture, class_="panel"))
    return tag("div", *drawn, class_="panels")


def _picture(name: str, x: Scale, y: Scale, content: Markup) -> Markup:
    """Axes with their numbers, and what is drawn on them."""
    grid = []
    for tick in y.ticks:
        grid.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(tick), y2=y(tick), class_="grid"))
        grid.append(tag("text", label(tick), x=LEFT - 6, y=y(tick) + 3, text_anchor="end"))
    whole = [tick for tick in x.ticks if tick == round(tick)]
    grid += [tag("text", label(tick), x=x(tick), y=HEIGHT - 5, text_anchor="middle") for tick in whole]
    box = f"0 0 {WIDTH:g} {HEIGHT:g}"
    return tag("svg", *grid, content, viewBox=box, role="img", aria_label=name)


def _line(line: Sequence[Point], x: Scale, y: Scale, kind: str = "curve") -> Markup:
    if not line:
        return EMPTY
    path = " ".join(f"{x(one.step):.1f},{y(one.mean):.1f}" for one in line)
    drawn = [tag("polyline", points=path, class_=kind)]
    if kind == "curve":
        drawn += [
            tag("circle", tag("title", _told(one)), cx=x(one.step), cy=y(one.mean), r=2.2, class_="dot") for one in line
        ]
    return join(*drawn)


def _band(line: Sequence[Point], x: Scale, y: Scale) -> Markup:
    if all(one.seeds == 1 for one in line):
        return EMPTY
    there = [f"{x(one.step):.1f},{y(one.high):.1f}" for one in line]
    back = [f"{x(one.step):.1f},{y(one.low):.1f}" for one in reversed(line)]
    return tag("polygon", points=" ".join(there + back), class_="band")


def _told(one: Point) -> str:
    seeds = f", {label(one.low)} to {label(one.high)} over {one.seeds} seeds" if one.seeds > 1 else ""
    return f"step {one.step}: {label(one.mean)}{seeds}"


def _whisker(one: SeenExperiment, x: Scale, y: Scale) -> Markup:
    """Held-out accuracies, each with a standard error to both sides."""
    drawn = []
    for measured in one.measured:
        at, mean, error = x(measured.step), measured.accuracy.mean, measured.accuracy.error
        title = tag("title", f"held out after {measured.step} steps: {label(mean)} ± {label(error)}")
        drawn.append(tag("line", x1=at, x2=at, y1=y(mean - error), y2=y(mean + error), class_="whisker"))
        drawn.append(tag("circle", title, cx=at, cy=y(mean), r=3, class_="held-out"))
    return join(*drawn)
