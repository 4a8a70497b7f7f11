"""Create a run, forward and backward, step."""

from __future__ import annotations

import contextlib
import math

from motet.engine.core.requests import CreateRun, LoadRun, OptimStep
from motet.engine.types import AdapterShape
from motet.errors import BadRequest, EngineFault, NotFinite
from motet.service.http.accepted import Accepted, Kind, Outcome
from motet.service.http.checkpoints import run_folder
from motet.service.http.futures import PROTOBUF, Reply, failure, json_reply
from motet.service.http.jobs.gradient import bodies, clear_gradient
from motet.service.http.jobs.snapshots import begin_snapshot, keep_snapshot
from motet.service.http.journal import run_row, step_row
from motet.service.http.registry import Run, Session, TakenStep
from motet.service.http.service import Service
from motet.service.http.standing import stand_up
from motet.service.wire import schemas
from motet.service.wire import training as wire


async def create_model(service: Service, accepted: Accepted) -> Outcome:
    """A new run with a fresh adapter."""
    session, body = accepted.owner, accepted.message
    assert isinstance(session, Session) and isinstance(body, schemas.CreateModel)
    service.check_base_model(body.base_model)
    lora, metadata = body.lora_config, body.user_metadata or {}
    if lora is None:
        raise BadRequest("full fine-tuning is not available here: send a lora_config")
    assert lora.seed is not None, "chosen when the request was accepted"
    check_optimizer(body.optimizer_config)
    shape = wire.read_shape(lora.rank, lora.train_attn, lora.train_mlp, lora.train_unembed, metadata)
    claim = service.claim(session.tenant, metadata)
    run = new_run(service, session, accepted, metadata)
    run.shape, run.seed = shape, lora.seed
    await add_run(service, session, run, CreateRun(run.id, shape, lora.seed, claim))
    return Outcome(json_reply({"type": "create_model", "model_id": run.id}), (run_row(run),))


def new_run(service: Service, session: Session, accepted: Accepted, metadata: dict[str, object]) -> Run:
    """The run that a request of number 0 is to make."""
    engine = service.engine
    run_id = accepted.id.rpartition(":")[0]
    return Run(run_id, session.id, session.tenant, metadata, engine.info.base_hash, generation=engine.generation)


async def add_run(service: Service, session: Session, run: Run, request: CreateRun | LoadRun) -> AdapterShape | None:
    """Register a run while the engine makes it; where it does not come to that, it has never been."""
    service.holdings.check_run(run.tenant, run.generation)
    service.registry.add_run(session, run)
    with contextlib.ExitStack() as undo:
        undo.callback(service.registry.forget_run, session, run)
        made: AdapterShape | None = await service.engine.call(request)
        undo.pop_all()
    return made


def check_optimizer(config: dict[str, object] | None) -> None:
    """AdamW is the only one."""
    kind = (config or {}).get("type", "adamw")
    if kind != "adamw":
        raise BadRequest(f"the optimizer {kind!r} is not available here: use adamw")


async def forward_backward(service: Service, accepted: Accepted) -> Outcome:
    """Loss and log-probabilities, and unless forward_only the gradient."""
    run = accepted.owner
    assert isinstance(run, Run)
    run.check()
    request = wire.read_forward_backward(accepted.message)
    result = await service.engine.call(request)

    def then() -> None:
        service.usage.note(run.tenant, run.session, "trained", sum(len(datum.tokens) for datum in request.data))
        if request.backward:
            run.accumulating.append(accepted.id)

    reply = Reply(wire.encode_train_result(result), PROTOBUF)
    return Outcome(reply, accumulates=service.engine.info.fingerprint if request.backward else None, then=then)


async def optim_step(service: Service, accepted: Accepted) -> Outcome:
    """One AdamW step on the accumulated gradient, which is in a file before the step is."""
    run, body = accepted.owner, accepted.message
    assert isinstance(run, Run) and isinstance(body, schemas.OptimStep)
    run.check()
    adam = wire.read_adam(body.adam_params, body.optimizer_params)
    if run.gradient_lost:
        await accepted.turn()
        return _lost_gradient(service, run)
    step = TakenStep(accepted.number, adam, f"{run_folder(run.id)}/gradients/{accepted.number}.safetensors")
    stepping = service.engine.submit(OptimStep(run.id, adam, str(service.path(step.gradient))))
    snapshot = begin_snapshot(service, run, accepted.number)
    try:
        result = await stepping
    except NotFinite as error:
        await accepted.turn()
        return _cleared(service, run, failure(error))

    await accepted.turn()

    def then() -> None:
        run.steps.append(step)
        run.accumulating.clear()
        if snapshot is not None:
            service.errand(keep_snapshot(service, run, snapshot))

    reply = json_reply({"metrics": {key: value for key, value in result.metrics.items() if math.isfinite(value)}})
    cleared = clear_gradient(service, run)
    return Outcome(reply, (step_row(run, step), *cleared), bodies(run), then=then)


def _cleared(service: Service, run: Run, reply: Reply) -> Outcome:
    """No step was taken, and nothing accumulates any more."""
    return Outcome(reply, clear_gradient(service, run), bodies(run), then=run.accumulating.clear)


def _lost_gradient(service: Service, run: Run) -> Outcome:
    """What accumulated was computed by another engine than this one: nobody can say that it would be the same."""
    error = EngineFault(
        "the gradient of this step was accumulating when the server stopped, and base model, dtype, torch or processor "
        "have changed since: send its forward_backward again; all steps before it stand"
    )

    def then() -> None:
        run.accumulating.clear()
        run.gradient_lost = False
        run.generation = 0
        service.errand(stand_up(service, run))

    return Outcome(failure(error), clear_gradient(service, run), bodies(run), then=then)


KINDS = (
    Kind("create_model", schemas.CreateModel.model_validate_json, create_model),
    Kind("forward_backward", wire.parse_forward_backward, forward_backward, wire.count_tokens),
    Kind("optim_step", schemas.OptimStep.model_validate_json, optim_step),
)
CREATE_MODEL, FORWARD_BACKWARD, OPTIM_STEP = KINDS
