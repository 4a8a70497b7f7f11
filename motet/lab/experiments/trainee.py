"""A run as its experiment sees it: trained, published, asked, saved."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import tinker
from transformers import PreTrainedTokenizerBase

from motet.lab.algorithms.base import Batch, Scorer, Scorers
from motet.lab.envs.rollout import TinkerPolicy
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.progress import Seconds
from motet.lab.experiments.scoring import SamplingScorer, TrainerScorer


@dataclass(frozen=True)
class Trained:
    """What the trainer said of one step."""

    loss: float
    grad_norm: float | None
    mismatch: list[float]  # |trainer - sampler| log-probability of every token that carried an advantage
    training: float  # seconds
    waiting: float
    publishing: float
    refused: str = ""  # why the server took no step
    told: dict[str, float] = field(default_factory=dict)  # by a custom loss, of itself

    def after(self, seconds: Seconds) -> Seconds:
        """The step's times, with these."""
        return replace(seconds, training=self.training, waiting=self.waiting, publishing=self.publishing)


class Trainee:
    """`policy` is the newest version, `scorers` what an algorithm may ask; both change with each publishing."""

    policy: TinkerPolicy
    scorers: Scorers

    def __init__(
        self,
        experiment: Experiment,
        client: tinker.TrainingClient,
        tokenizer: PreTrainedTokenizerBase,
        base: Scorer,
        teacher: Scorer | None,
        version: int,
    ) -> None:
        self._experiment = experiment
        self._client = client
        self._tokenizer = tokenizer
        self._base = base
        self._teacher = teacher
        self.version = version

    async def publish(self) -> None:
        """Turn the run's weights into a version, and the version into the policy."""
        client = await self._client.save_weights_and_get_sampling_client()
        self.version += 1
        self.policy = TinkerPolicy(client, self._tokenizer, self._experiment.temperature, self.version)
        self.scorers = Scorers(
            base=self._base,
            current=SamplingScorer(client),
            trainer=TrainerScorer(self._client),
            version=self.version,
            temperature=self._experiment.temperature,
            teacher=self._teacher,
        )

    async def train(self, batch: Batch, rate: float) -> Trained:
        """Gradient, optimizer step and publishing are submitted at once and done in that order."""
        began = time.monotonic()
        passing = self._pass(batch)
        stepping = self._client.optim_step(
            tinker.AdamParams(
                learning_rate=rate,
                weight_decay=self._experiment.weight_decay,
                grad_clip_norm=self._experiment.grad_clip,
            )
        )
        output, stepped, _ = await asyncio.gather(passing, _stepped(stepping), self.publish())
        training = stepped.at - began
        working = metric(output.metrics, "seconds")
        waiting = max(0.0, training - working) if working is not None else 0.0
        loss = metric(output.metrics, "loss")
        assert loss is not None, "every loss tells its value"
        return Trained(
            loss=loss,
            grad_norm=metric(stepped.metrics, "grad_norm"),
            mismatch=_mismatch(batch, output),
            training=training - waiting,
            waiting=waiting,
            publishing=max(0.0, time.monotonic() - stepped.at),
            refused=stepped.refused,
            told={} if batch.custom is None else _own(output.metrics),
        )

    @property
    def session(self) -> str:
        """At the server: a run's id begins with that of its session, by the API's own rule."""
        return str(self._client.model_id).partition(":train:")[0]

    async def save(self, name: str) -> str:
        """A checkpoint of everything; gives its path."""
        saved = await self._client.save_state(name)
        return str(saved.path)

    def _pass(self, batch: Batch) -> Awaitable[tinker.ForwardBackwardOutput]:
        if batch.custom is not None:
            return self._client.forward_backward_custom(batch.data, batch.custom)
        return self._client.forward_backward(batch.data, batch.loss, batch.loss_config)


@dataclass(frozen=True)
class Stepped:
    """The optimizer's answer and when it came."""

    metrics: Mapping[str, float]
    at: float  # time.monotonic()
    refused: str = ""


async def _stepped(stepping: Awaitable[tinker.types.OptimStepResponse]) -> Stepped:
    """A step that the server will not take, as one on NaN, is an answer: the run stands where it stood."""
    try:
        result = await stepping
    except tinker.RequestFailedError as error:
        if error.category != "user":
            raise
        return Stepped({}, time.monotonic(), error.message)
    return Stepped(result.metrics or {}, time.monotonic())


def metric(metrics: Mapping[str, float], name: str) -> float | None:
    """A metric by its name, else whatever its reduction (`name:sum`, `name:mean`); None where it is not told."""
    if name in metrics:
        return metrics[name]
    return next((value for key, value in metrics.items() if key.partition(":")[0] == name), None)


def _own(metrics: Mapping[str, float]) -> dict[str, float]:
    """What a custom loss said; the server's own metrics carry their reduction in their names."""
    return {key: float(value) for key, value in metrics.items() if ":" not in key and key != "loss"}


def _mismatch(batch: Batch, output: tinker.ForwardBackwardOutput) -> list[float]:
    """How far apart sampler and trainer were at the same weights, token by token."""
    if batch.custom is not None:
        return []
    drift: list[float] = []
    for lesson, result in zip(batch.lessons, output.loss_fn_outputs, strict=True):
        if lesson.present is not None:
            trained = lesson.datum.loss_fn_inputs["advantages"].to_numpy() != 0
            drift += np.abs(result["logprobs"].to_numpy() - lesson.present)[trained].tolist()
    return drift
