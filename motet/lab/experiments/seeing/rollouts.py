"""Episodes side by side: the same problem of a step, one column an experiment, its best and its worst episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from motet.lab.experiments.seeing.folder import Rollout, SeenExperiment
from motet.lab.experiments.seeing.html import EMPTY, Markup, join, tag
from motet.lab.experiments.seeing.scale import label
from motet.lab.experiments.seeing.text import shortened

PROMPT_END = 400  # characters of a prompt that are shown at once


@dataclass(frozen=True)
class Column:
    """What one experiment wrote on a problem: two episodes, as different as there are."""

    name: str
    episodes: list[Rollout]


@dataclass(frozen=True)
class Scene:
    """One problem of one step."""

    step: int
    problem: int
    columns: list[Column]


def scenes(experiments: Sequence[SeenExperiment]) -> list[Scene]:
    """Of the first step, the middle one and the last."""
    last = max((len(one.steps) for one in experiments), default=0)
    wanted = sorted({1, (1 + last) // 2, last}) if last else []
    kept = {one.name: [r for r in one.rollouts() if r.step in wanted] for one in experiments}
    found = []
    for step in wanted:
        groups = {name: [r for r in all_of_it if r.step == step] for name, all_of_it in kept.items()}
        if any(groups.values()):
            found.append(_scene(step, groups))
    return found


def _scene(step: int, groups: dict[str, list[Rollout]]) -> Scene:
    """The problem that most experiments had, and among those the one on which episodes differ most."""
    rewards: dict[int, dict[str, list[float]]] = {}
    for name, episodes in groups.items():
        for one in episodes:
            rewards.setdefault(one.problem, {}).setdefault(name, []).append(one.reward)

    def worth(problem: int) -> tuple[int, float, int]:
        each = rewards[problem].values()
        return len(each), sum(max(one) - min(one) for one in each), -problem

    problem = max(rewards, key=worth)
    columns = [
        Column(name, _extremes([r for r in all_of_it if r.problem == problem])) for name, all_of_it in groups.items()
    ]
    return Scene(step, problem, [column for column in columns if column.episodes])


def _extremes(episodes: Sequence[Rollout]) -> list[Rollout]:
    """The best, then the worst; the first two where none is better."""
    ordered = sorted(episodes, key=lambda one: -one.reward)
    return [ordered[0], ordered[-1]] if len(ordered) > 1 else ordered


def draw_scenes(found: Sequence[Scene]) -> Markup:
    """Folded but for the last one."""
    return join(*(_draw(scene, scene is found[-1]) for scene in found))


def _draw(scene: Scene, unfolded: bool) -> Markup:
    prompts = {one.turns[0].inserted for column in scene.columns for one in column.episodes if one.turns}
    common = prompts.pop() if len(prompts) == 1 else None
    columns = [_column(column, own_prompt=common is None) for column in scene.columns]
    head = tag("summary", f"Step {scene.step}", tag("span", f"problem {scene.problem}", class_="quiet"))
    shown = EMPTY if common is None else _prompt(common)
    return tag("details", head, shown, tag("div", *columns, class_="columns"), class_="scene", open=unfolded)


def _column(column: Column, own_prompt: bool) -> Markup:
    first = column.episodes[0]
    prompt = _prompt(first.turns[0].inserted) if own_prompt and first.turns else EMPTY
    return tag("section", tag("h4", column.name), prompt, *map(_episode, column.episodes), class_="column")


def _prompt(text: str) -> Markup:
    end = shortened(text, PROMPT_END)
    shown = tag("div", end, class_="inserted text")
    if end == text:
        return shown
    whole = tag("details", tag("summary", f"the whole prompt, {len(text)} characters"), tag("div", text, class_="text"))
    return join(shown, tag("div", whole, class_="whole"))


def _episode(one: Rollout) -> Markup:
    """All turns; the prompt stands above."""
    kind = "reward good" if one.reward > 0 else "reward"
    head = tag(
        "p",
        tag("span", label(one.reward), class_=kind),
        one.outcome,
        tag("span", f"version {one.version}", class_="quiet"),
    )
    turns = []
    for place, turn in enumerate(one.turns):
        if place:
            turns.append(tag("div", turn.inserted, class_="inserted text"))
        earned = tag("span", f"{turn.reward:+g}", class_="earned") if turn.reward else EMPTY
        turns.append(tag("div", turn.written, earned, class_="written text"))
    return tag("article", head, *turns, class_="episode")
