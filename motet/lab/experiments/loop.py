"""One experiment, from a fresh adapter (or from where it stood) to its last measurement, over nothing but the client
API."""

from __future__ import annotations

import time

from motet.lab.experiments.checks import stops, with_findings
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.door import Door
from motet.lab.experiments.evaluate import Baselines
from motet.lab.experiments.measuring import measured
from motet.lab.experiments.progress import Finding, Progress, Seconds
from motet.lab.experiments.record import Record
from motet.lab.experiments.setting import Setting, open_setting
from motet.lab.experiments.state import State


async def run_experiment(
    experiment: Experiment, door: Door, progress: Progress, record: Record, baselines: Baselines
) -> None:
    """Run it to its end. What is measured goes to `progress` and `record` as it comes."""
    if record.session is not None:
        await door.clear_up(record.session, keep=record.state.path if record.state else "")
    async with door.session(experiment.name) as service:
        setting = await open_setting(service, door, experiment, record.state)
        record.enter(setting.trainee.session)
        if record.state is None:
            progress.noted = setting.findings
            record.noted(setting.findings)
            await _measure(setting, progress, record, baselines, "start")
        try:
            found = await _steps(setting, progress, record, baselines)
        finally:
            await setting.source.close()
        if found is not None:
            progress.error = found.line
            progress.enter("stopped")
            return
        progress.trained = time.monotonic()
        await _measure(setting, progress, record, baselines, "end")
        record.done()
        progress.enter("done")


async def _steps(setting: Setting, progress: Progress, record: Record, baselines: Baselines) -> Finding | None:
    """All steps that are left, or up to a finding that the experiment stops on; resumed, it stops on new ones alone."""
    experiment, begun = setting.experiment, len(progress.history)
    if begun == 0 and (found := stops(experiment.stop_on, setting.findings, after=-1)) is not None:
        return found
    progress.enter("running")
    for step in range(begun + 1, experiment.steps + 1):
        await _step(setting, step, progress, record)
        if experiment.eval_every and step % experiment.eval_every == 0 and step < experiment.steps:
            await _measure(setting, progress, record, baselines, str(step))
            progress.enter("running")
        found = stops(experiment.stop_on, progress.history[-1].findings, after=begun)
        due = experiment.checkpoint_every and step % experiment.checkpoint_every == 0
        if due or (found is not None and experiment.checkpoint_every):
            await _checkpoint(setting, step, record)
        if found is not None:
            return found
    return None


async def _step(setting: Setting, step: int, progress: Progress, record: Record) -> None:
    """Gather, teach, publish: one optimizer step, and what is to be said of it."""
    began = time.monotonic()
    version = setting.trainee.version
    gathered = await setting.source.take()
    seconds = Seconds(sampling=time.monotonic() - began)
    batch = await setting.experiment.algorithm.batch(gathered.material, setting.trainee.scorers)
    rate = setting.experiment.rate_at(step, setting.rate)
    trained = await setting.trainee.train(batch, rate) if batch.lessons else None
    if trained is not None:
        seconds = trained.after(seconds)
        setting.source.renew(setting.trainee.policy)
    metrics = with_findings(progress.history, measured(step, version, rate, gathered, batch, trained, seconds))
    progress.history.append(metrics)
    record.metrics(metrics)
    record.rollouts(step, gathered.groups, setting.tokenizer)


async def _measure(setting: Setting, progress: Progress, record: Record, baselines: Baselines, when: str) -> None:
    """On what is never trained on. A fresh adapter changes nothing, so the first measurement may be somebody else's."""
    exam = setting.exam
    if exam is None:
        return
    progress.enter("evaluating")
    if when == "start":
        progress.start = accuracy = await baselines.get(setting.experiment, lambda: exam.take(setting.trainee))
    else:
        progress.end = accuracy = await exam.take(setting.trainee)
    record.accuracy(when, accuracy)


async def _checkpoint(setting: Setting, step: int, record: Record) -> None:
    """Have the server keep the run, note where everything stands, and let the checkpoint before it go."""
    before = record.state
    path = await setting.trainee.save(f"step-{step}")
    record.keep(State(step, setting.trainee.version, path, setting.source.position()))
    if before is not None and before.path != path:
        await setting.forget(before.path)
