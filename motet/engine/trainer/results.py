"""From the results of a request's pieces to the result of the request."""

from __future__ import annotations

import numpy as np

from motet.engine.trainer.head import PieceResult
from motet.engine.types import TrainResult


def merge_results(results: list[PieceResult]) -> TrainResult:
    """Metric names are "name:reduction", as the API's clients combine them.

    mismatch is |p - q|, current against sampling log-probability, over the targets that carry an advantage.
    """
    drift = np.concatenate([result.mismatch for result in results])
    metrics = {
        "loss:sum": sum(result.loss for result in results),
        "targets:sum": float(sum(result.targets for result in results)),
    }
    if len(drift):
        metrics |= {"mismatch:mean": float(drift.mean()), "mismatch:max": float(drift.max())}
    return TrainResult([logprobs for result in results for logprobs in result.logprobs], metrics)
