"""The report of a sweep: one HTML file that needs nothing else, made anew from the folder."""

from __future__ import annotations

from datetime import datetime
from importlib.resources import files
from pathlib import Path

from motet.lab.experiments.seeing.folder import SeenSweep, read_sweep
from motet.lab.experiments.seeing.html import Markup, tag, trusted
from motet.lab.experiments.seeing.sections import sections

REPORT = "report.html"
TIMES = {"makespan": "in all", "mean_experiment": "an experiment", "mean_step": "a step"}


def write_page(folder: Path) -> Path:
    """Make report.html from what is in a sweep's folder. BadConfig: there is no experiment in it."""
    file = folder / REPORT
    file.write_text(render(read_sweep(folder)), encoding="utf-8")
    return file


def render(sweep: SeenSweep) -> str:
    """The whole page."""
    name = sweep.folder.resolve().name
    style = files("motet.lab.experiments.seeing").joinpath("style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{name} · Motet"),
        tag("style", trusted(style)),
    )
    body = tag("body", tag("main", _title(sweep, name), *sections(sweep.experiments), _foot(sweep)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _title(sweep: SeenSweep, name: str) -> Markup:
    count = len(sweep.experiments)
    told = [f"{count} experiment{'s' if count > 1 else ''}"]
    told += [f"on {sweep.model}"] if sweep.model else []
    unfinished = sum(one.state != "done" for one in sweep.experiments)
    told += [f"{unfinished} of them not done"] if unfinished else []
    for key, words in TIMES.items():
        seconds = sweep.times.get(key)
        told += [f"{seconds:,.1f} s {words}"] if seconds is not None else []
    return tag("header", tag("h1", name), tag("p", " · ".join(told), class_="quiet"))


def _foot(sweep: SeenSweep) -> Markup:
    when = datetime.now().strftime("%Y-%m-%d %H:%M")
    told = f"Made {when} by motet report {sweep.folder}. More episodes: motet show {sweep.experiments[0].folder}"
    return tag("footer", told)
