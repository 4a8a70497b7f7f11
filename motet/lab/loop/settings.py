"""What one adapter's loop may do: a TOML file, checked. docs/loop.md tells every key."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from motet.errors import BadConfig
from motet.lab.algorithms.grpo import Grpo
from motet.lab.envs.settings import AnyEnvironment
from motet.lab.experiments.config import Experiment
from motet.lab.loop.simulated.settings import Simulation
from motet.settings_file import read_toml, unknown_key

FORM = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class When(BaseModel):
    """When a round begins: `items` are there, or `least` of them and `minutes` have passed since the oldest came."""

    model_config = FORM
    items: int = Field(default=32, ge=1)
    minutes: float = Field(default=60.0, ge=0)
    least: int = Field(default=8, ge=1)
    most: int = Field(default=512, ge=1, le=10_000)  # in one round
    held_out: float = Field(default=0.2, ge=0, lt=1)  # the part of all prompts that is never trained on
    look_every: float = Field(default=5.0, gt=0)  # seconds


class Learn(BaseModel):
    """What feedback becomes, and how it is learned."""

    model_config = FORM
    corrections: Literal["self_distillation", "sft", "dpo", "off"] = "self_distillation"
    pairs: Literal["dpo", "sft", "off"] = "dpo"
    verdicts: Literal["kto", "reinforce", "off"] = "kto"
    good: float = 0.0  # a score above it is a good one
    parent: Literal["serving", "base"] = "serving"
    epochs: int = Field(default=2, ge=1)
    batch: int = Field(default=8, ge=1)  # items of a step
    learning_rate: float | None = Field(default=5e-4, gt=0)  # None: "auto"
    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32.0, gt=0)
    beta: float = Field(default=0.1, gt=0)  # of dpo and kto
    kl: float = Field(default=0.0, ge=0)  # of reinforce: what leaving the base model costs
    max_tokens: int = Field(default=64, ge=1)  # of an answer that is sampled to learn from
    weight_decay: float = Field(default=0.0, ge=0)
    grad_clip: float = Field(default=1.0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _auto(cls, table: Any) -> Any:
        if isinstance(table, dict) and table.get("learning_rate") == "auto":
            return {**table, "learning_rate": None}
        return table


class Replay(BaseModel):
    """Older items that are learned again, as a part of the new ones' number."""

    model_config = FORM
    share: float = Field(default=0.5, ge=0)


class Anchor(BaseModel):
    """Prompts whose answers should stay the base model's: each step learns some of its own answers too."""

    model_config = FORM
    prompts: Path | None = Field(default=None, strict=False)  # JSONL: {"messages"} or {"prompt"}
    batch: int = Field(default=4, ge=1)
    weight: float = Field(default=1.0, gt=0)
    max_tokens: int = Field(default=64, ge=1)


class Tasks(BaseModel):
    """Checkable tasks that are practised in every round: GRPO in an environment."""

    model_config = FORM
    environment: AnyEnvironment
    algorithm: Grpo = Grpo()
    steps: int = Field(default=2, ge=1)
    problems: int = Field(default=4, ge=1)
    samples: int = Field(default=8, ge=2)


class Gate(BaseModel):
    """What a candidate must show before anybody meets it."""

    model_config = FORM
    level: float = Field(default=0.05, gt=0, lt=0.5)  # how often one that changes nothing may pass
    margin: float = Field(default=0.1, ge=0)  # by how much it may be worse elsewhere, on a scale of 0 to 1
    sure: bool = False  # a guard must be surely, at `level`, no worse than that; else what is measured counts
    regression: Path | None = Field(default=None, strict=False)  # JSONL, docs/loop.md
    safety: bool = True  # the set that comes with Motet
    questions: int = Field(default=64, ge=1)  # of held-out feedback, the newest
    temperature: float = Field(default=0.0, ge=0)
    max_tokens: int = Field(default=64, ge=1)


class Canary(BaseModel):
    """A candidate's share of live traffic, after the gate and before it serves."""

    model_config = FORM
    share: float = Field(default=0.2, ge=0, lt=1)  # 0: what the gate lets through serves at once
    minutes: float = Field(default=30.0, ge=0)
    least: int = Field(default=40, ge=1)  # items of feedback to either version before its time may decide
    margin: float = Field(default=0.1, ge=0)
    error: float = Field(default=0.05, gt=0, lt=0.5)  # of the bound, however often it is looked at


class Drift(BaseModel):
    """How far a candidate may go before there is an alarm."""

    model_config = FORM
    kl: float = Field(default=2.0, gt=0)  # nats a token from the base model, on its own answers
    surprise: float = Field(default=0.0, ge=0)  # nats a token that its own answers must hold
    length: float = Field(default=4.0, gt=1)  # times longer or shorter than before
    refusals: float = Field(default=0.2, gt=0)  # part of the answers that refuse, beyond before
    refuse: bool = False  # an alarm refuses the candidate; else it is told


class Quarantine(BaseModel):
    """Which feedback contradicts the rest."""

    model_config = FORM
    least: int = Field(default=2, ge=1)  # other sources that must agree with each other
    alike: float = Field(default=0.5, gt=0, le=1)  # how like two corrections are that say the same
    source_share: float = Field(
        default=0.5, gt=0, le=1
    )  # so much of a source's items outvoted: all of them are doubted


class Policy(BaseModel):
    """One adapter's loop."""

    model_config = FORM
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    model: str | None = None  # None: what the server serves
    seed: int = Field(default=0, ge=0, lt=2**63)
    when: When = When()
    learn: Learn = Learn()
    replay: Replay = Replay()
    anchor: Anchor = Anchor()
    tasks: Tasks | None = None
    gate: Gate = Gate()
    canary: Canary = Canary()
    drift: Drift = Drift()
    quarantine: Quarantine = Quarantine()
    simulation: Simulation | None = None

    @property
    def recipe(self) -> dict[str, Any]:
        """What a version was made by, for its lineage."""
        return self.model_dump(mode="json", include={"model", "seed", "learn", "replay", "anchor", "tasks"})

    def run(self, number: int) -> Experiment:
        """A round's run, as every experiment has one."""
        learn, tasks = self.learn, self.tasks
        return Experiment(
            name=f"{self.name}-{number}",
            seed=self.seed,
            steps=0,
            samples=2 if tasks is None else tasks.samples,
            problems=1 if tasks is None else tasks.problems,
            learning_rate=learn.learning_rate,
            rank=learn.rank,
            alpha=learn.alpha,
            weight_decay=learn.weight_decay,
            grad_clip=learn.grad_clip,
        )


SECTIONS: dict[str, type[BaseModel]] = {
    "when": When,
    "learn": Learn,
    "replay": Replay,
    "anchor": Anchor,
    "tasks": Tasks,
    "gate": Gate,
    "canary": Canary,
    "drift": Drift,
    "quarantine": Quarantine,
    "simulation": Simulation,
}


def load(file: Path) -> Policy:
    """Read a loop's file; paths in it are relative to it. BadConfig: no such file, an unknown key, a wrong value."""
    table = read_toml(file, "loop file")
    try:
        policy = Policy.model_validate(table)
    except ValidationError as error:
        raise BadConfig(f"{file}: " + "; ".join(_told(dict(one)) for one in error.errors())) from None
    anchor, gate = policy.anchor, policy.gate
    if anchor.prompts is not None:
        anchor = anchor.model_copy(update={"prompts": file.parent / anchor.prompts})
    if gate.regression is not None:
        gate = gate.model_copy(update={"regression": file.parent / gate.regression})
    simulation = policy.simulation
    if simulation is not None:
        simulation = simulation.model_copy(update={"people": file.parent / simulation.people})
    return policy.model_copy(update={"anchor": anchor, "gate": gate, "simulation": simulation})


def _told(error: dict[str, Any]) -> str:
    """One mistake as a person would tell it."""
    *sections, key = [str(part) for part in error["loc"]] or [""]
    if error["type"] != "extra_forbidden":
        return f"{'.'.join([*sections, key])}: {error['msg'].removeprefix('Value error, ')}"
    if not sections:
        return unknown_key(key, Policy.model_fields)
    return unknown_key(key, SECTIONS[sections[0]].model_fields, sections[0])
