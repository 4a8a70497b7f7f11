"""What a report is made of, from findings to episodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from motet.lab.experiments.progress import StepMetrics
from motet.lab.experiments.seeing.accuracies import accuracy_table, paired_matrix
from motet.lab.experiments.seeing.breakdown import time_bars
from motet.lab.experiments.seeing.compare import exam_of
from motet.lab.experiments.seeing.curves import Measure, panels
from motet.lab.experiments.seeing.differences import differing, families, flat, shared, shown
from motet.lab.experiments.seeing.findings import draw_findings
from motet.lab.experiments.seeing.folder import SeenExperiment
from motet.lab.experiments.seeing.html import Markup, join, tag
from motet.lab.experiments.seeing.rollouts import draw_scenes, scenes

LOSS = "loss"
MORE: dict[str, Measure] = {
    LOSS: lambda step: step.loss,
    "gradient norm": lambda step: step.grad_norm,
    "entropy, nats a token": lambda step: step.entropy,
    "sampler against trainer, nats a token": lambda step: step.mismatch_mean,
}
MEASURED_BY = {
    "episodes": "Mean reward of one sample a problem, with its standard error.",
    "conversations": "Mean log-probability of a token that is to be learned, in nats, with its standard error.",
    "pairs": "Part of the pairs in which the policy has moved to the chosen answer, with its standard error.",
    "judged": "Part of the answers whose probability has moved as they were judged, with its standard error.",
}
PAIRED = (
    "How much more the row got than the column on the same problems: the mean of the differences, its standard error, "
    "and the 95 % interval of the bootstrap. Coloured where that leaves out 0."
)
BAND = (
    "The line is the mean over seeds, the band goes from the lowest to the highest; the other experiments stand behind."
)
HELD_OUT = "Dots with whiskers are held-out accuracies."
TIME = "Means. Waiting is the part of a training request's time that the server spent on others."
EPISODES = (
    "One problem of a step and the best and the worst episode on it. Grey was inserted, coloured was written by the "
    "policy."
)


def sections(experiments: Sequence[SeenExperiment]) -> Iterator[Markup]:
    """What there is to be seen: a section that would be empty is left out."""
    several = len(experiments) > 1
    yield _section("Findings", draw_findings(experiments))
    yield _section("Held out", accuracy_table(experiments), note=_measured_by(experiments))
    if several:
        yield _section("Against each other", paired_matrix(experiments), note=PAIRED)
    yield from _curves(experiments)
    yield _section("Time of a step", time_bars(experiments), note=TIME)
    yield _section("What differs" if several else "Settings", _differences(experiments))
    if found := scenes(experiments):
        yield _section("Episodes", draw_scenes(found), note=EPISODES)


def _curves(experiments: Sequence[SeenExperiment]) -> Iterator[Markup]:
    """Rewards where there are episodes, else losses; then everything else that was measured of a step."""
    grouped = families(experiments)
    plays = any(step.groups for one in experiments for step in one.steps)
    named = {f"{name}, of the algorithm": _own(name) for name in _own_names(experiments)}
    more = {name: measure for name, measure in {**MORE, **named}.items() if plays or name != LOSS}
    if plays:
        yield _section("Reward", panels(grouped, _reward, held_out=True), note=f"{HELD_OUT} {BAND}")
    else:
        yield _section("Loss", panels(grouped, MORE[LOSS]), note=BAND)
    drawn = [(name, panels(grouped, measure)) for name, measure in more.items()]
    parts = [tag("div", tag("h3", name), picture) for name, picture in drawn if picture]
    yield tag("details", tag("summary", "More of each step"), *parts)


def _reward(step: StepMetrics) -> float | None:
    return step.reward if step.groups else None


def _own_names(experiments: Sequence[SeenExperiment]) -> list[str]:
    """Numbers that an algorithm says of itself."""
    return list(dict.fromkeys(name for one in experiments for step in one.steps for name in step.algorithm))


def _own(name: str) -> Measure:
    return lambda step: step.algorithm.get(name)


def _measured_by(experiments: Sequence[SeenExperiment]) -> str:
    kinds = dict.fromkeys(str(exam_of(one.config)[0]) for one in experiments)
    return " ".join(MEASURED_BY[kind] for kind in kinds if kind in MEASURED_BY)


def _section(title: str, *content: Markup, note: str = "") -> Markup:
    told = [tag("p", note, class_="note")] if note else []
    return tag("section", tag("h2", title), *told, *content)


def _differences(experiments: Sequence[SeenExperiment]) -> Markup:
    """A row an experiment, a column a setting that is not the same in all; what is the same is folded away."""
    names = differing(experiments)
    if len(experiments) == 1:
        told = ", ".join(f"{name} {shown(value)}" for name, value in flat(experiments[0].config).items())
        return tag("p", told, class_="note")
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
