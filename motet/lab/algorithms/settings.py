"""The algorithms by name."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from motet.lab.algorithms.base import AlgorithmSettings
from motet.lab.algorithms.cispo import Cispo
from motet.lab.algorithms.dapo import Dapo
from motet.lab.algorithms.distillation import Distillation
from motet.lab.algorithms.dpo import Dpo
from motet.lab.algorithms.dr_grpo import DrGrpo
from motet.lab.algorithms.grpo import Grpo
from motet.lab.algorithms.gspo import Gspo
from motet.lab.algorithms.kto import Kto
from motet.lab.algorithms.ppo import Ppo
from motet.lab.algorithms.reinforce import Reinforce
from motet.lab.algorithms.rloo import Rloo
from motet.lab.algorithms.self_distillation import SelfDistillation
from motet.lab.algorithms.sft import Sft

AnyAlgorithm = Annotated[
    Grpo | DrGrpo | Rloo | Reinforce | Ppo | Dapo | Cispo | Gspo | Distillation | SelfDistillation | Sft | Dpo | Kto,
    Field(discriminator="name"),
]
ALGORITHMS: dict[str, type[AlgorithmSettings]] = {
    "grpo": Grpo,
    "dr_grpo": DrGrpo,
    "rloo": Rloo,
    "reinforce": Reinforce,
    "ppo": Ppo,
    "dapo": Dapo,
    "cispo": Cispo,
    "gspo": Gspo,
    "distillation": Distillation,
    "self_distillation": SelfDistillation,
    "sft": Sft,
    "dpo": Dpo,
    "kto": Kto,
}
