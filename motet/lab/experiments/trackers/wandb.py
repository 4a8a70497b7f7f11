"""Weights & Biases: a run an experiment, a group a sweep. WANDB_MODE=offline keeps it on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from uuid import uuid4

import wandb

from motet.lab.experiments.trackers.base import Subject

PROJECT = "motet"  # WANDB_PROJECT is stronger
ID = "wandb.txt"  # in the experiment's folder: it goes on in the same run


class WeightsAndBiases:
    """One run of theirs."""

    def __init__(self, subject: Subject) -> None:
        known = subject.folder / ID
        if not known.exists():
            known.write_text(f"{uuid4().hex[:12]}\n", encoding="utf-8")
        settings = wandb.Settings(silent=True)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=known.read_text(encoding="utf-8").strip(),
            resume="allow",
            reinit="create_new",
            group=subject.sweep,
            name=subject.experiment,
            config=dict(subject.config),
            dir=str(subject.folder),
            settings=settings,
        )

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        self._run.finish()
