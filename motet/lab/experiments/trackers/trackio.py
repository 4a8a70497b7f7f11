"""trackio: a run an experiment, on this machine; `trackio show --project motet` shows them."""

from __future__ import annotations

from collections.abc import Mapping

import trackio

from motet.lab.experiments.trackers.base import Subject

PROJECT = "motet"


class Trackio:
    """One run of theirs. Going on goes on in it."""

    def __init__(self, subject: Subject) -> None:
        self._run = trackio.init(
            PROJECT,
            name=f"{subject.sweep} {subject.experiment}",
            group=subject.sweep,
            config=dict(subject.config),
            resume="allow" if subject.done else "never",
            embed=False,
            auto_log_cpu=False,
            auto_log_gpu=False,
        )

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        self._run.finish()
