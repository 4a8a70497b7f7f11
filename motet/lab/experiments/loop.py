"""One experiment, from a fresh adapter to the last held-out accuracy, over nothing but the client API."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tinker
from transformers import PreTrainedTokenizerBase

from motet.lab.algorithms.base import Batch, Scorer, Scorers
from motet.lab.envs.protocol import Group, Tasks
from motet.lab.envs.rollout import Played, TinkerPolicy, mix, play_group, play_groups
from motet.lab.experiments.checks import find
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.door import Door, create_run
from motet.lab.experiments.evaluate import Baselines, evaluate
from motet.lab.experiments.progress import Progress, Seconds, StepMetrics
from motet.lab.experiments.record import Record
from motet.lab.experiments.scoring import TinkerScorer


async def run_experiment(
    experiment: Experiment, door: Door, progress: Progress, record: Record, baselines: Baselines
) -> None:
    """Run it to its end. What is measured goes to `progress` and `record` as it comes."""
    async with door.session(experiment.name) as service:
        training = await create_run(service, door.model, experiment)
        tokenizer = await asyncio.to_thread(training.get_tokenizer)
        base = await asyncio.to_thread(service.create_sampling_client, base_model=door.model)
        loop = Loop(experiment, training, tokenizer, TinkerScorer(base))
        await loop.publish()
        if experiment.eval_problems:
            progress.enter("evaluating")
            progress.start = await baselines.get(experiment, loop.tasks, loop.policy)
            record.accuracy("start", progress.start)
        progress.enter("running")
        for step in range(1, experiment.steps + 1):
            done = await loop.step(step)
            progress.history.append(done.metrics)
            record.metrics(done.metrics)
            record.rollouts(step, done.groups, tokenizer)
        progress.trained = time.monotonic()
        if experiment.eval_problems:
            progress.enter("evaluating")
            progress.end = await evaluate(loop.tasks, loop.policy, experiment.eval_problems)
            record.accuracy("end", progress.end)
        progress.enter("done")


@dataclass(frozen=True)
class Trained:
    """What the trainer said of one step."""

    loss: float
    grad_norm: float | None
    mismatch: list[float]  # |trainer - sampler| log-probability of every token that carried an advantage
    training: float  # seconds
    waiting: float
    publishing: float


@dataclass(frozen=True)
class Step:
    """What came of one step."""

    metrics: StepMetrics
    groups: list[Group]


class Loop:
    """Roll out, train, publish: the three phases of a step and what they need. `policy` is the newest version."""

    policy: TinkerPolicy
    scorers: Scorers

    def __init__(
        self,
        experiment: Experiment,
        training: tinker.TrainingClient,
        tokenizer: PreTrainedTokenizerBase,
        base: Scorer,
    ) -> None:
        self._base = base
        self._experiment = experiment
        self._training = training
        self._tokenizer = tokenizer
        self._version = 0
        self.tasks: Tasks = experiment.environment.build(tokenizer, experiment.seed)

    async def publish(self) -> None:
        """Turn the run's weights into a version, and the version into the policy."""
        client = await self._training.save_weights_and_get_sampling_client()
        self._version += 1
        self.policy = TinkerPolicy(client, self._tokenizer, self._experiment.temperature, self._version)
        self.scorers = Scorers(self._base, TinkerScorer(client), self._version)

    async def step(self, step: int) -> Step:
        """One step of the experiment: it samples with one policy and leaves the next one."""
        version = self._version
        began = time.monotonic()
        played = await self._roll_out(step)
        seconds = Seconds(sampling=time.monotonic() - began)
        batch = await self._experiment.algorithm.batch(played.groups, self.scorers)
        trained = await self._train(batch) if batch.data else None
        if trained is not None:
            seconds.training, seconds.waiting = trained.training, trained.waiting
            seconds.publishing = trained.publishing
        return Step(_measured(step, version, played, batch, trained, seconds), played.groups)

    async def _roll_out(self, step: int) -> Played:
        """All groups of a step at once; problems follow each other through the steps."""
        size, samples = self._experiment.problems, self._experiment.samples
        first = (step - 1) * size
        return await play_groups(
            play_group(
                index,
                [self.tasks.train(index) for _ in range(samples)],
                self.policy,
                mix(self._experiment.seed, index),
            )
            for index in range(first, first + size)
        )

    async def _train(self, batch: Batch) -> Trained:
        """Gradient, optimizer step and publishing are submitted at once and done in that order."""
        began = time.monotonic()
        passing = self._training.forward_backward(batch.data, batch.loss, batch.loss_config)
        stepping = self._training.optim_step(
            tinker.AdamParams(
                learning_rate=self._experiment.learning_rate,
                weight_decay=self._experiment.weight_decay,
                grad_clip_norm=self._experiment.grad_clip,
            )
        )
        output, stepped, _ = await asyncio.gather(passing, _timed(stepping), self.publish())
        training = stepped.at - began
        working = _metric(output.metrics, "seconds")
        waiting = max(0.0, training - working) if working is not None else 0.0
        return Trained(
            loss=output.metrics["loss:sum"],
            grad_norm=_metric(stepped.result.metrics or {}, "grad_norm"),
            mismatch=_mismatch(batch.data, output),
            training=training - waiting,
            waiting=waiting,
            publishing=max(0.0, time.monotonic() - stepped.at),
        )


@dataclass(frozen=True)
class Stepped:
    """The optimizer's answer and when it came."""

    result: tinker.types.OptimStepResponse
    at: float  # time.monotonic()


async def _timed(stepping: Awaitable[tinker.types.OptimStepResponse]) -> Stepped:
    return Stepped(await stepping, time.monotonic())


def _metric(metrics: Mapping[str, float], name: str) -> float | None:
    """A metric by its name, whatever its reduction (`name:sum`, `name:mean`); None where it is not told."""
    return next((value for key, value in metrics.items() if key.partition(":")[0] == name), None)


def _mismatch(data: Sequence[tinker.Datum], output: tinker.ForwardBackwardOutput) -> list[float]:
    """How far apart sampler and trainer were, token by token."""
    drift = []
    for datum, result in zip(data, output.loss_fn_outputs, strict=True):
        trained = datum.loss_fn_inputs["advantages"].to_numpy() != 0
        apart = result["logprobs"].to_numpy() - datum.loss_fn_inputs["logprobs"].to_numpy()
        drift += np.abs(apart[trained]).tolist()
    return drift


def _measured(
    step: int, version: int, played: Played, batch: Batch, trained: Trained | None, seconds: Seconds
) -> StepMetrics:
    """All numbers of a step."""
    episodes = [one for group in played.groups for one in group.trajectories]
    outcomes = Counter(one.end.outcome for one in episodes)
    tokens = sum(one.written_count for one in episodes)
    numbers = [x for x in (trained.loss, trained.grad_norm) if x is not None] if trained else []
    mismatch = float(np.mean(trained.mismatch)) if trained and trained.mismatch else None
    return StepMetrics(
        step=step,
        reward=float(np.mean([one.reward for one in episodes])),
        outcomes=dict(outcomes),
        groups_left_out=batch.left_out,
        failed_episodes=len(played.failures),
        tokens=tokens,
        tokens_per_second=tokens / max(seconds.sampling, 1e-9),
        seconds=seconds,
        version=version,
        loss=trained.loss if trained else None,
        grad_norm=trained.grad_norm if trained else None,
        mismatch_mean=mismatch,
        mismatch_max=max(trained.mismatch) if trained and trained.mismatch else None,
        findings=find(outcomes, len(played.groups), batch.left_out, numbers, mismatch),
    )
