"""TensorBoard, through tensorboardX: `tensorboard --logdir FOLDER` shows a sweep's folder."""

from __future__ import annotations

from collections.abc import Mapping

from tensorboardX import SummaryWriter

from motet.lab.experiments.trackers.base import Subject


class TensorBoard:
    """Event files in the experiment's folder. Going on hides what an earlier life wrote beyond its checkpoint."""

    def __init__(self, subject: Subject) -> None:
        folder = str(subject.folder / "tensorboard")
        self._writer = SummaryWriter(folder, purge_step=subject.done + 1 if subject.done else None)

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
