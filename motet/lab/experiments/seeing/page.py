"""The report of a sweep: one HTML file that needs nothing else, made anew from the folder."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path

from motet.lab.experiments.progress import StepMetrics
from motet.lab.experiments.seeing.accuracies import accuracy_table, paired_matrix
from motet.lab.experiments.seeing.breakdown import time_bars
from motet.lab.experiments.seeing.curves import Families, panels
from motet.lab.experiments.seeing.differences import differing, families, flat, shared, shown
from motet.lab.experiments.seeing.findings import draw_findings
from motet.lab.experiments.seeing.folder import SeenExperiment, SeenSweep, read_sweep
from motet.lab.experiments.seeing.html import Markup, join, tag, trusted
from motet.lab.experiments.seeing.rollouts import draw_scenes, scenes

REPORT = "report.html"
MORE = {
    "loss": lambda step: step.loss,
    "gradient norm": lambda step: step.grad_norm,
    "entropy, nats a token": lambda step: step.entropy,
    "sampler against trainer, nats a token": lambda step: step.mismatch_mean,
}
BAND = (
    "The line is the mean over seeds, the band goes from the lowest to the highest; the other experiments stand behind."
)


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
    body = tag("body", tag("main", _title(sweep, name), *_sections(sweep.experiments), _foot(sweep)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _sections(experiments: Sequence[SeenExperiment]) -> list[Markup]:
    grouped = families(experiments)
    learns = any(step.groups for one in experiments for step in one.steps)
    curve = "Reward" if learns else "Loss"
    held_out = "Dots with whiskers are held-out accuracies. " if learns else ""
    return [
        _section("Findings", draw_findings(experiments)),
        _section(
            "Held out",
            accuracy_table(experiments),
            note="Mean reward of one sample a problem, with its standard error.",
        ),
        _section("Against each other", paired_matrix(experiments), note=PAIRED),
        _section(curve, panels(grouped, _reward if learns else MORE["loss"], held_out=learns), note=held_out + BAND),
        _more(grouped),
        _section("Time of a step", time_bars(experiments), note=TIME),
        _section("What differs", _differences(experiments)),
        _section("Episodes", draw_scenes(scenes(experiments)), note=EPISODES),
    ]


PAIRED = (
    "How much more the row got than the column on the same problems: the mean of the differences, its standard error, "
    "and the 95 % interval of the bootstrap. Coloured where that leaves out 0."
)
TIME = "Means. Waiting is the part of a training request's time that the server spent on others."
EPISODES = (
    "One problem of a step and the best and the worst episode on it. Grey was inserted, coloured was written by the "
    "policy."
)


def _reward(step: StepMetrics) -> float | None:
    return step.reward if step.groups else None


def _section(title: str, *content: Markup, note: str = "") -> Markup:
    told = [tag("p", note, class_="note")] if note else []
    return tag("section", tag("h2", title), *told, *content)


def _title(sweep: SeenSweep, name: str) -> Markup:
    count = len(sweep.experiments)
    told = [f"{count} experiment{'s' if count > 1 else ''}"]
    told += [f"on {sweep.model}"] if sweep.model else []
    unfinished = sum(one.state != "done" for one in sweep.experiments)
    told += [f"{unfinished} of them not done"] if unfinished else []
    shown_times = {"makespan": "in all", "mean_experiment": "an experiment", "mean_step": "a step"}
    for key, words in shown_times.items():
        seconds = sweep.times.get(key)
        told += [f"{seconds:,.1f} s {words}"] if seconds is not None else []
    return tag("header", tag("h1", name), tag("p", " · ".join(told), class_="quiet"))


def _more(grouped: Families) -> Markup:
    drawn = [(name, panels(grouped, measure)) for name, measure in MORE.items()]
    parts = [tag("div", tag("h3", name), picture) for name, picture in drawn if picture]
    return tag("details", tag("summary", "Loss, gradient, entropy, agreement of sampler and trainer"), *parts)


def _differences(experiments: Sequence[SeenExperiment]) -> Markup:
    """A row an experiment, a column a setting that is not the same in all; what is the same is folded away."""
    names = differing(experiments)
    same = ", ".join(f"{name} {shown(value)}" for name, value in shared(experiments).items())
    folded = tag("details", tag("summary", "The same in all"), tag("p", same, class_="note"))
    if not names:
        return join(tag("p", "No setting differs.", class_="quiet"), folded)
    heads = [tag("th", "experiment"), *(tag("th", name) for name in names)]
    rows = []
    for one in experiments:
        settings = flat(one.config)
        cells = [tag("td", shown(settings.get(name)), class_="number") for name in names]
        rows.append(tag("tr", tag("th", one.name, scope="row"), *cells))
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows))
    return join(tag("div", table, class_="scroll"), folded)


def _foot(sweep: SeenSweep) -> Markup:
    when = datetime.now().strftime("%Y-%m-%d %H:%M")
    told = f"Made {when} by motet report {sweep.folder}. More episodes: motet show {sweep.experiments[0].folder}"
    return tag("footer", told)
