"""Supervised fine-tuning: L = -1/M sum log p(token), over the M tokens of the step that are to be learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from motet.lab.algorithms.base import AlgorithmSettings, Batch, Lesson, Scorers, Takes
from motet.lab.algorithms.datums import weighted_datum
from motet.lab.algorithms.examples import Completion


class Sft(AlgorithmSettings):
    """Settings of supervised fine-tuning and the algorithm itself."""

    takes: ClassVar[Takes] = "conversations"
    name: Literal["sft"]

    async def batch(self, material: Sequence[Completion], scorers: Scorers) -> Batch:
        taught = [one for one in material if one.written_count]
        total = sum(one.written_count for one in taught)
        lessons = [Lesson(weighted_datum(one.tokens, one.weights / total)) for one in taught]
        return Batch(lessons, "cross_entropy", left_out=len(material) - len(taught))
