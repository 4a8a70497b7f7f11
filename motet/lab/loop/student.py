"""The run that learns: a version to draw from, scorers to ask, and steps that several batches make together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

import tinker
from transformers import PreTrainedTokenizerBase

from motet.chat.template import Chat
from motet.errors import BadConfig
from motet.lab.algorithms.base import Batch, Scorers
from motet.lab.envs.rollout import TinkerPolicy
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.door import Door, create_run
from motet.lab.experiments.scoring import SamplingScorer, TrainerScorer
from motet.lab.experiments.setting import own_tokenizer
from motet.lab.experiments.starting import rate_for
from motet.lab.experiments.trainee import metric


@dataclass(frozen=True)
class Kept:
    """A run's checkpoints of one name: to serve, and to go on from."""

    serving: str  # tinker://RUN/sampler_weights/NAME

    @property
    def training(self) -> str:
        """tinker://RUN/weights/NAME."""
        return self.serving.replace("/sampler_weights/", "/weights/")


class Student:
    """One run of one round. `policy` and `scorers` are of its newest version."""

    policy: TinkerPolicy
    scorers: Scorers

    def __init__(
        self, run: Experiment, client: tinker.TrainingClient, base: tinker.SamplingClient, chat: Chat, rate: float
    ) -> None:
        self.chat = chat
        self.base = TinkerPolicy(base, chat.tokenizer, 1.0)
        self._run = run
        self._client = client
        self._base = SamplingScorer(base)
        self._rate = rate
        self._version = 0

    @property
    def session(self) -> str:
        """At the server, by the API's own rule."""
        return str(self._client.model_id).partition(":train:")[0]

    async def publish(self) -> None:
        """What the run has learned becomes what it draws with and is asked of."""
        client = await self._client.save_weights_and_get_sampling_client()
        self._version += 1
        self.policy = TinkerPolicy(client, self.chat.tokenizer, 1.0, self._version)
        self.scorers = Scorers(self._base, SamplingScorer(client), TrainerScorer(self._client), self._version)

    async def step(self, batches: Sequence[Batch]) -> float:
        """One optimizer step on the sum of the batches' losses, published; gives that sum. What the server will not
        take, as a gradient of NaN, raises tinker.RequestFailedError."""
        passing = [self._pass(one) for one in batches]
        run = self._run
        stepping = self._client.optim_step(
            tinker.AdamParams(learning_rate=self._rate, weight_decay=run.weight_decay, grad_clip_norm=run.grad_clip)
        )
        outputs, _, _ = await asyncio.gather(asyncio.gather(*passing), stepping, self.publish())
        return sum(metric(one.metrics, "loss") or 0.0 for one in outputs)

    def _pass(self, batch: Batch) -> Awaitable[tinker.ForwardBackwardOutput]:
        if batch.custom is not None:
            return self._client.forward_backward_custom(batch.data, batch.custom)
        return self._client.forward_backward(batch.data, batch.loss, batch.loss_config)

    async def keep(self, name: str) -> Kept:
        """Both checkpoints, of one name."""
        await self._client.save_state(name)
        saved = await self._client.save_weights_for_sampler(name)
        return Kept(str(saved.path))


async def open_student(service: tinker.ServiceClient, door: Door, run: Experiment, parent: str | None) -> Student:
    """A fresh adapter on the base model, or the weights of a version with a fresh optimizer. BadConfig: that version
    was not made by a loop."""
    if parent is None:
        client = await create_run(service, door.model, run)
    else:
        client = await _from(service, run, Kept(parent))
    tokenizer: PreTrainedTokenizerBase = await asyncio.to_thread(own_tokenizer, client.get_tokenizer)
    base: tinker.SamplingClient = await (await asyncio.to_thread(service.create_sampling_client, base_model=door.model))
    student = Student(run, client, base, Chat(tokenizer), rate_for(run, door.model, tokenizer))
    await student.publish()
    return student


async def _from(service: tinker.ServiceClient, run: Experiment, parent: Kept) -> tinker.TrainingClient:
    about = {"motet.name": run.name}
    create = service.create_training_client_from_state
    try:
        creating = await asyncio.to_thread(create, parent.training, user_metadata=about)
        client: tinker.TrainingClient = await creating
    except (tinker.NotFoundError, tinker.BadRequestError, tinker.RequestFailedError) as error:
        raise BadConfig(
            f"{parent.serving} cannot be gone on from ({error}): what a loop learns from is saved by a loop; "
            'set parent = "base" in [learn], or promote a version that the loop has made'
        ) from None
    return client
