"""Episodes in a terminal: what was inserted and what was written, told apart with and without colours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from shlex import quote

from rich.console import Console
from rich.text import Text

from motet.errors import BadConfig
from motet.lab.experiments.seeing.folder import Rollout, SeenExperiment, read_experiment, read_sweep
from motet.lab.experiments.seeing.text import shortened, visible
from motet.lab.experiments.sweep_folder import CONFIG

INSERTED, WRITTEN = "┊ ", "┃ "
PROMPT_END = 300  # characters of a prompt that are shown, where the whole is not asked for


@dataclass(frozen=True)
class Choice:
    """Which episodes are shown. None: whichever."""

    step: int | None = None  # the last one that was recorded
    problem: int | None = None
    failures: bool = False  # only those without any reward
    order: str = "written"  # or "best", "worst": first
    count: int = 4

    def of(self, episodes: Iterable[Rollout]) -> list[Rollout]:
        """At most `count`, in the order in which they are shown."""
        kept: list[Rollout] = []
        latest = 0
        for one in episodes:
            if self.step is None and one.step > latest:
                kept, latest = [], one.step
            if self.step in (None, one.step) and self._fits(one):
                kept.append(one)
        if self.order != "written":
            kept.sort(key=lambda one: -one.reward if self.order == "best" else one.reward)
        return kept[: self.count]

    def _fits(self, one: Rollout) -> bool:
        return self.problem in (None, one.problem) and not (self.failures and one.reward > 0)


def find_experiment(folder: Path) -> SeenExperiment:
    """The experiment of a folder, or the only one of a sweep's. BadConfig: it has none, or several."""
    if (folder / CONFIG).is_file():
        return read_experiment(folder)
    found = read_sweep(folder).experiments
    if len(found) > 1:
        names = "\n".join(f"  motet show {quote(str(one.folder))}" for one in found)
        raise BadConfig(f"{folder} holds {len(found)} experiments; choose one:\n{names}")
    return found[0]


def show_rollouts(folder: Path, choice: Choice, whole_prompt: bool, console: Console) -> None:
    """Print them, each problem's prompt once. BadConfig: there are none of this choice."""
    one = find_experiment(folder)
    chosen = choice.of(one.rollouts())
    if not chosen:
        raise BadConfig(f"{one.name} has no such episode; it has {_extent(one)}")
    console.print(Text(visible(one.name), "bold"))
    for _, group in groupby(chosen, key=lambda episode: (episode.step, episode.problem)):
        members = list(group)
        _print_problem(members[0], whole_prompt, console)
        for episode in members:
            _print_episode(episode, console)


def _extent(one: SeenExperiment) -> str:
    steps = sorted({episode.step for episode in one.rollouts()})
    return f"steps {steps[0]} to {steps[-1]}, some of them perhaps without failures" if steps else "none at all"


def _print_problem(first: Rollout, whole: bool, console: Console) -> None:
    prompt = first.turns[0].inserted if first.turns else ""
    console.print(Text(f"\nstep {first.step}, problem {first.problem}, version {first.version}", "bold"))
    console.print(_marked(prompt if whole else shortened(prompt, PROMPT_END), INSERTED, "dim"), soft_wrap=True)


def _print_episode(one: Rollout, console: Console) -> None:
    title = f"\nmember {one.member}: {visible(one.outcome)}, reward {one.reward:g}"
    console.print(Text(title, "green" if one.reward > 0 else "yellow"))
    for place, turn in enumerate(one.turns):
        if place:
            console.print(_marked(turn.inserted, INSERTED, "dim"), soft_wrap=True)
        console.print(_marked(turn.written, WRITTEN, "cyan"), soft_wrap=True)
        if turn.reward:
            console.print(Text(f"  earned {turn.reward:+g}", "green"))


def _marked(text: str, mark: str, style: str) -> Text:
    """Every line behind its mark."""
    lines = visible(text).strip("\n").split("\n")
    return Text("\n").join(Text.assemble((mark, style), (line, style)) for line in lines)
