"""Everything that an experiment needs, put together: its run, where its material comes from, what it is measured by."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import tinker
from transformers import PreTrainedTokenizerBase

from motet.chat.template import encode
from motet.lab.algorithms.base import Scorer
from motet.lab.algorithms.distillation import Distillation
from motet.lab.envs.rollout import Policy, TinkerPolicy
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.door import Door, create_run, resume_run
from motet.lab.experiments.evaluate import EpisodeExam, Exam, FileExam
from motet.lab.experiments.progress import Finding
from motet.lab.experiments.scoring import PromptedScorer, SamplingScorer
from motet.lab.experiments.sources import Episodes, FileExamples, Source, playing
from motet.lab.experiments.starting import corrected_for, first_findings, rate_for
from motet.lab.experiments.state import State
from motet.lab.experiments.stream import Stream
from motet.lab.experiments.trainee import Trainee


@dataclass(frozen=True)
class Setting:
    """An experiment that is ready for its next step. forget: lets a checkpoint of a path go."""

    experiment: Experiment
    trainee: Trainee
    source: Source
    exam: Exam | None  # None: nothing is kept for measuring
    tokenizer: PreTrainedTokenizerBase
    rate: float
    findings: list[Finding]
    forget: Callable[[str], Awaitable[None]]


async def open_setting(
    service: tinker.ServiceClient, door: Door, experiment: Experiment, state: State | None
) -> Setting:
    """Where `state` says, else at the beginning. BadConfig: the environment or the file cannot be had."""
    experiment = corrected_for(experiment, await door.sampler())
    client = await (create_run(service, door.model, experiment) if state is None else resume_run(service, state.path))
    tokenizer = await asyncio.to_thread(own_tokenizer, client.get_tokenizer)
    base = SamplingScorer(await _sampling(service, base_model=door.model))
    teacher = await _teacher(service, experiment, base, tokenizer)
    version = 0 if state is None else state.version - 1  # publishing counts one on
    trainee = Trainee(experiment, client, tokenizer, base, teacher, version)
    await trainee.publish()
    speaker = await _speaker(service, door, experiment, tokenizer)
    if (context := await door.context()) is not None:
        experiment = experiment.model_copy(update={"environment": experiment.environment.within(context)})
    source, exam = await asyncio.to_thread(_material, experiment, tokenizer, trainee, speaker, state)
    rate = rate_for(experiment, door.model, tokenizer)
    findings = first_findings(experiment, door.model, tokenizer, rate)
    return Setting(experiment, trainee, source, exam, tokenizer, rate, findings, door.forget_checkpoint)


def own_tokenizer(get: Callable[[], PreTrainedTokenizerBase]) -> PreTrainedTokenizerBase:
    """The SDK gives all clients of a process the same one, and how it encodes is set in it before each call: threads
    would mix, now and then, what is a control token and what only spells one."""
    return copy.deepcopy(get())


async def _sampling(
    service: tinker.ServiceClient, model_path: str | None = None, base_model: str | None = None
) -> tinker.SamplingClient:
    """Asking blocks for a moment, and gives the client later."""
    creating = await asyncio.to_thread(service.create_sampling_client, model_path, base_model)
    client: tinker.SamplingClient = await creating
    return client


async def _teacher(
    service: tinker.ServiceClient, experiment: Experiment, base: SamplingScorer, tokenizer: PreTrainedTokenizerBase
) -> Scorer | None:
    """Who judges in a distillation."""
    algorithm, teacher = experiment.algorithm, base
    if not isinstance(algorithm, Distillation):
        return None
    if algorithm.teacher is not None:
        teacher = SamplingScorer(await _sampling(service, model_path=algorithm.teacher))
    if not algorithm.teacher_prompt:
        return teacher
    return PromptedScorer(teacher, encode(tokenizer, algorithm.teacher_prompt), tokenizer.bos_token_id)


async def _speaker(
    service: tinker.ServiceClient, door: Door, experiment: Experiment, tokenizer: PreTrainedTokenizerBase
) -> TinkerPolicy | None:
    """Who else speaks in the episodes, where it is somebody of this server."""
    speaker = experiment.environment.speaker
    if speaker is None or experiment.data is not None:
        return None
    base, path = (door.model, None) if speaker.who == "base" else (None, speaker.who)
    return TinkerPolicy(await _sampling(service, path, base), tokenizer, speaker.temperature)


def _material(
    experiment: Experiment,
    tokenizer: PreTrainedTokenizerBase,
    trainee: Trainee,
    speaker: Policy | None,
    state: State | None,
) -> tuple[Source, Exam | None]:
    at = {} if state is None else state.position
    if experiment.data is not None:
        examples = experiment.data.read(experiment.algorithm.takes, tokenizer)
        held_out = examples.held_out[: experiment.eval_problems]
        source = FileExamples(experiment, examples.train, at)
        return source, FileExam(experiment.algorithm.takes, held_out) if held_out else None
    tasks = experiment.environment.build(tokenizer, experiment.seed, speaker)
    play = playing(experiment, tasks)
    exam = EpisodeExam(tasks, experiment.eval_problems) if experiment.eval_problems else None
    if experiment.mode == "async":
        return Stream(experiment, play, trainee.policy, at), exam
    return Episodes(experiment, play, trainee.policy, at), exam
