"""A step's metrics, with what a test does not care about filled in."""

from __future__ import annotations

from dataclasses import replace

from motet.lab.experiments.progress import Seconds, StepMetrics

PLAIN = StepMetrics(
    step=1,
    reward=0.5,
    outcomes={"right": 2, "wrong": 2},
    groups=2,
    groups_left_out=1,
    failed_episodes=0,
    tokens=100,
    tokens_per_second=50.0,
    seconds=Seconds(sampling=2.0, training=1.0, publishing=0.25, waiting=0.5),
    version=1,
    loss=-0.1,
    grad_norm=1.5,
    mismatch_mean=0.001,
    mismatch_max=0.01,
    learning_rate=1e-3,
    entropy=1.0,
    trained_tokens=50,
)


def step(number: int = 1, **changes: object) -> StepMetrics:
    return replace(PLAIN, step=number, version=number, **changes)  # type: ignore[arg-type]
