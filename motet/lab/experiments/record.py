"""The folder of one experiment: what is written down as it happens, and from where it goes on.

config.json, metrics.jsonl, held_out.jsonl, rollouts.jsonl, rollouts.txt, state.json, session.txt, error.txt.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from motet.lab.envs.protocol import Group, Trajectory
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.progress import Accuracy, Finding, StepMetrics
from motet.lab.experiments.state import State, read_state, write_state
from motet.lab.experiments.trackers.base import Trackers

READABLE_EPISODES = 4  # of the first group of each step go into rollouts.txt
GROWING = ("metrics.jsonl", "held_out.jsonl", "rollouts.jsonl", "rollouts.txt")


class Record:
    """Appends as things happen, so that what was measured survives whatever comes. `state` is where to go on."""

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        """A new record, or one that goes on: what was written after its last checkpoint is cut away. BadConfig."""
        self.folder = folder
        self.trackers = Trackers()  # whoever else is told
        self._steps = experiment.steps
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(experiment.model_dump_json(indent=2) + "\n", encoding="utf-8")
        self.state = read_state(folder)
        for name in GROWING:
            _cut(folder / name, self.state.sizes.get(name, 0) if self.state else 0)
        (folder / "error.txt").unlink(missing_ok=True)

    @property
    def session(self) -> str | None:
        """At the server, of the life that was last."""
        file = self.folder / "session.txt"
        return file.read_text(encoding="utf-8").strip() if file.exists() else None

    def enter(self, session: str) -> None:
        """A life begins, in a session of its own."""
        (self.folder / "session.txt").write_text(f"{session}\n", encoding="utf-8")

    def noted(self, findings: Sequence[Finding]) -> None:
        """What was wrong before the first step."""
        for one in findings:
            self._append("metrics.jsonl", json.dumps({"kind": "noted", **asdict(one)}))

    def metrics(self, step: StepMetrics) -> None:
        self._append("metrics.jsonl", json.dumps({"kind": "step", **asdict(step)}))
        self.trackers.step(step)

    def accuracy(self, when: str, accuracy: Accuracy) -> None:
        """`when` is "start", "end" or a step. Problem by problem it stands in a file of its own."""
        told = asdict(accuracy)
        each = told.pop("each")
        self._append("metrics.jsonl", json.dumps({"kind": "held_out", "when": when, **told}))
        self._append("held_out.jsonl", json.dumps({"when": when, "rewards": each}))
        self.trackers.accuracy(self._step_of(when), accuracy)

    def rollouts(self, step: int, groups: Sequence[Group], tokenizer: PreTrainedTokenizerBase) -> None:
        """Every episode as a line of JSON; a few of one group for people, what was inserted in ‹brackets›."""
        for group in groups:
            for member, one in enumerate(group.trajectories):
                place = {"step": step, "problem": group.problem, "member": member}
                self._append("rollouts.jsonl", json.dumps({**place, **_told(one, tokenizer)}))
        if not groups:
            return
        episodes = groups[0].trajectories[:READABLE_EPISODES]
        prompt = tokenizer.decode(episodes[0].turns[0].read)
        self._append("rollouts.txt", f"== step {step}, problem {groups[0].problem}\n{prompt}")
        for one in episodes:
            title = f"-- {one.end.outcome}, reward {one.reward:g}"
            self._append("rollouts.txt", f"{title}\n{_readable(one, tokenizer)}\n")

    def keep(self, state: State) -> None:
        """From now on the experiment goes on from here."""
        sizes = {name: _secured(self.folder / name) for name in GROWING if (self.folder / name).exists()}
        self.state = replace(state, sizes=sizes)
        write_state(self.folder, self.state)

    def done(self) -> None:
        """Nothing is left to do."""
        before = self.state or State(step=0, version=0, path="", position={})
        self.keep(replace(before, done=True))

    def error(self, error: BaseException) -> None:
        self._append("error.txt", "".join(traceback.format_exception(error)))

    def _step_of(self, when: str) -> int:
        """Of a measurement."""
        return {"start": 0, "end": self._steps}[when] if not when.isdigit() else int(when)

    def _append(self, name: str, text: str) -> None:
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def _secured(file: Path) -> int:
    """A file's size, all of it on the disk."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        return os.fstat(opened.fileno()).st_size


def _cut(file: Path, size: int) -> None:
    """What stands beyond belongs to no step that is kept."""
    if file.exists() and file.stat().st_size > size:
        with file.open("r+b") as opened:
            opened.truncate(size)


def _told(one: Trajectory, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    turns = [
        {"read": tokenizer.decode(turn.read), "written": turn.written.text, "reward": turn.reward} for turn in one.turns
    ]
    return {"reward": one.reward, "outcome": one.end.outcome, "version": one.version, "turns": turns}


def _readable(one: Trajectory, tokenizer: PreTrainedTokenizerBase) -> str:
    """All of an episode but its prompt."""
    first, *rest = one.turns
    later = [f"‹{tokenizer.decode(turn.read)}›{turn.written.text}" for turn in rest]
    return "".join([first.written.text, *later])
