"""The run folder of one experiment: config.json, metrics.jsonl, rollouts.jsonl, rollouts.txt, error.txt."""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from motet.lab.envs.protocol import Group, Trajectory
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.progress import Accuracy, StepMetrics

READABLE_EPISODES = 4  # of the first group of each step go into rollouts.txt


class Record:
    """Appends as things happen, so that what was measured survives whatever comes."""

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(experiment.model_dump_json(indent=2) + "\n", encoding="utf-8")

    def metrics(self, step: StepMetrics) -> None:
        self._append("metrics.jsonl", json.dumps({"kind": "step", **asdict(step)}))

    def accuracy(self, when: str, accuracy: Accuracy) -> None:
        """`when` is "start" or "end"."""
        self._append("metrics.jsonl", json.dumps({"kind": "held_out", "when": when, **asdict(accuracy)}))

    def rollouts(self, step: int, groups: Sequence[Group], tokenizer: PreTrainedTokenizerBase) -> None:
        """Every episode as a line of JSON; a few of one group for people, what was inserted in ‹brackets›."""
        for group in groups:
            for member, one in enumerate(group.trajectories):
                place = {"step": step, "problem": group.problem, "member": member}
                self._append("rollouts.jsonl", json.dumps({**place, **_told(one, tokenizer)}))
        episodes = groups[0].trajectories[:READABLE_EPISODES]
        prompt = tokenizer.decode(episodes[0].turns[0].read)
        self._append("rollouts.txt", f"== step {step}, problem {groups[0].problem}\n{prompt}")
        for one in episodes:
            title = f"-- {one.end.outcome}, reward {one.reward:g}"
            self._append("rollouts.txt", f"{title}\n{_readable(one, tokenizer)}\n")

    def error(self, error: BaseException) -> None:
        self._append("error.txt", "".join(traceback.format_exception(error)))

    def _append(self, name: str, text: str) -> None:
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def _told(one: Trajectory, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    turns = [{"read": tokenizer.decode(turn.read), "written": turn.written.text} for turn in one.turns]
    return {"reward": one.reward, "outcome": one.end.outcome, "turns": turns}


def _readable(one: Trajectory, tokenizer: PreTrainedTokenizerBase) -> str:
    """All of an episode but its prompt."""
    first, *rest = one.turns
    later = [f"‹{tokenizer.decode(turn.read)}›{turn.written.text}" for turn in rest]
    return "".join([first.written.text, *later])
