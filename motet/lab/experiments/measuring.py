"""From what happened in a step to its line of metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from motet.chat.calls import read_calls
from motet.lab.algorithms.base import Batch
from motet.lab.envs.protocol import Trajectory
from motet.lab.experiments.progress import Seconds, StepMetrics
from motet.lab.experiments.sources import Gathered
from motet.lab.experiments.trainee import Trained

CALL_MARKS = ("<tool_call>", '{"name"')


def measured(
    step: int,
    version: int,
    rate: float,
    gathered: Gathered,
    batch: Batch,
    trained: Trained | None,
    seconds: Seconds,
) -> StepMetrics:
    """All numbers of a step; findings come later."""
    episodes = [one for group in gathered.groups for one in group.trajectories]
    tokens = sum(one.written_count for one in episodes)
    calls = Counter(_call(turn.written.text) for one in episodes for turn in one.turns)
    mismatch = trained.mismatch if trained is not None else []
    return StepMetrics(
        step=step,
        reward=float(np.mean([one.reward for one in episodes])) if episodes else 0.0,
        outcomes=dict(Counter(one.end.outcome for one in episodes)),
        groups=len(gathered.groups),
        groups_left_out=batch.left_out,
        failed_episodes=len(gathered.failures),
        tokens=tokens,
        tokens_per_second=tokens / max(seconds.sampling, 1e-9),
        seconds=seconds,
        version=version,
        loss=trained.loss if trained else None,
        grad_norm=trained.grad_norm if trained else None,
        mismatch_mean=float(np.mean(mismatch)) if mismatch else None,
        mismatch_max=max(mismatch) if mismatch else None,
        learning_rate=rate,
        entropy=_entropy(episodes),
        empty=sum(not any(turn.written.text.strip() for turn in one.turns) for one in episodes),
        calls=calls["read"],
        torn_calls=calls["torn"],
        dropped=gathered.dropped,
        staleness=max((version - one.version for one in episodes), default=0),
        trained_tokens=_trained_tokens(batch),
        refused=trained.refused if trained else "",
        algorithm={**batch.metrics, **(trained.told if trained else {})},
    )


def _call(text: str) -> Literal["none", "read", "torn"]:
    """Is there a tool call in a turn? Marks as the chat templates teach them, see `motet.chat.calls`."""
    if read_calls(text):
        return "read"
    return "torn" if any(mark in text for mark in CALL_MARKS) else "none"


def _entropy(episodes: Sequence[Trajectory]) -> float | None:
    """-log q of what was written, on average: by chance it is the entropy's expectation."""
    written = [lp for one in episodes for turn in one.turns for lp in turn.written.logprobs]
    return -float(np.mean(written)) if written else None


def _trained_tokens(batch: Batch) -> int:
    """Targets that count in the loss."""
    counted = 0
    for lesson in batch.lessons:
        inputs = lesson.datum.loss_fn_inputs
        weight = inputs["advantages"] if "advantages" in inputs else inputs["weights"]
        counted += int(np.count_nonzero(weight.to_numpy()))
    return counted
