"""What happened, as one HTML file that needs nothing else: acceptance after each round, and why a version serves."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from motet.lab.experiments.seeing.html import Markup, tag, trusted
from motet.lab.experiments.seeing.scale import Scale
from motet.lab.loop.simulated.play import Entry

PAGE = "loop.html"
WIDTH, HEIGHT, EDGE = 720.0, 220.0, 36.0


def write_page(folder: Path, name: str, entries: Sequence[Entry]) -> Path:
    """Anew after each entry."""
    style = files("motet.lab.experiments.seeing").joinpath("style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{name} · Motet"),
        tag("style", trusted(style)),
    )
    title = tag("header", tag("h1", name), tag("p", _summary(entries), class_="quiet"))
    body = tag("body", tag("main", title, _curve(entries), tag("h2", "What happened"), _table(entries)))
    file = folder / PAGE
    file.write_text(f"<!doctype html>\n{tag('html', head, body, lang='en')}\n", encoding="utf-8")
    return file


def _summary(entries: Sequence[Entry]) -> str:
    first, last = entries[0], entries[-1]
    return (
        f"{first.acceptance:.0%} of the answers accepted at first, {last.acceptance:.0%} now, by version {last.serving}"
    )


def _curve(entries: Sequence[Entry]) -> Markup:
    x = Scale(0, max(len(entries) - 1, 1), EDGE, WIDTH - EDGE)
    y = Scale(0.0, 1.0, HEIGHT - EDGE, EDGE / 2)
    drawn = []
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        drawn.append(tag("line", x1=EDGE, x2=WIDTH - EDGE, y1=y(part), y2=y(part), class_="grid"))
        drawn.append(tag("text", f"{part:.0%}", x=EDGE - 6, y=y(part) + 3, text_anchor="end"))
    general = [(place, one.general) for place, one in enumerate(entries) if one.general is not None]
    drawn.append(_line([(x(place), y(score)) for place, score in general], "way"))
    drawn.append(_line([(x(place), y(one.acceptance)) for place, one in enumerate(entries)], "curve"))
    for place, one in enumerate(entries):
        told = tag("title", f"{one.what}: {one.acceptance:.0%}, version {one.serving}")
        drawn.append(tag("circle", told, cx=x(place), cy=y(one.acceptance), r=4, class_="dot"))
        drawn.append(tag("text", f"v{one.serving}", x=x(place), y=HEIGHT - EDGE / 2, text_anchor="middle"))
    picture = tag("svg", *drawn, viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", role="img", aria_label="acceptance")
    caption = tag(
        "figcaption", "Accepted answers to questions that are never learned from; dashed, the regression set."
    )
    return tag("figure", caption, picture, class_="panel")


def _line(points: Sequence[tuple[float, float]], kind: str) -> Markup:
    dashes = "5 4" if kind == "way" else None
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return tag("polyline", points=path, class_=kind, fill="none", stroke_dasharray=dashes)


def _table(entries: Sequence[Entry]) -> Markup:
    heads = ("", "serves", "accepted", "elsewhere", "s", "decided")
    rows = [
        tag(
            "tr",
            tag("th", one.what),
            tag("td", f"v{one.serving}", class_="number"),
            tag("td", f"{one.acceptance:.0%}", class_="number strong"),
            tag("td", "" if one.general is None else f"{one.general:.0%}", class_="number"),
            tag("td", "" if one.seconds is None else f"{one.seconds:.0f}", class_="number"),
            tag("td", one.decided),
        )
        for one in entries
    ]
    top = tag("thead", tag("tr", *(tag("th", head) for head in heads)))
    return tag("div", tag("table", top, tag("tbody", *rows), class_="wide"), class_="scroll")
