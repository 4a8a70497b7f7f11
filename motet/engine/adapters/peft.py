"""PEFT folders in and out: what we write loads in `peft` and vLLM as it is, and the other way round.

The format: `adapter_config.json` and `adapter_model.safetensors` with `...lora_A.weight` (R, D_in) and
`...lora_B.weight` (D_out, R) for each projection of Hugging Face's own module tree.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from motet.engine.adapters.folders import whole_folder
from motet.engine.adapters.layout import Layout
from motet.engine.models.weights import DOWN, GATE_UP, HEAD, OUT, QKV, SITES, in_layer
from motet.engine.ops.finite import all_finite
from motet.engine.types import AdapterShape
from motet.errors import BadRequest, EngineFault, NotFound

PREFIX = "base_model.model."
ATTENTION = {name.rpartition(".")[2] for name in (*QKV, *OUT)}
MLP = {name.rpartition(".")[2] for name in (*GATE_UP, *DOWN)}


class LoadedAdapter(NamedTuple):
    layout: Layout
    flat: Tensor  # float32


class _Part(NamedTuple):
    module: str  # PEFT's name of the projection
    a: Tensor  # (D_in, R), a view into the flat tensor
    b: Tensor  # (R, D_out part), a view into the flat tensor


def _parts(layout: Layout, flat: Tensor) -> list[_Part]:
    """Every projection of the adapter, as views of `flat`."""
    rank, parts = layout.shape.rank, []
    last = len(layout.plan) - 1
    for site, plan in enumerate(layout.plan):
        if plan is None:
            continue
        layer, place = divmod(site, len(SITES))
        names = [in_layer(layer, name) for name in SITES[place]] if site < last else [HEAD]
        a = flat[plan.a_start : plan.b_start].view(plan.d_in, len(names) * rank).split(rank, dim=1)
        width = sum(plan.splits)
        b = flat[plan.b_start : plan.b_start + rank * width].view(rank, width).split(list(plan.splits), dim=1)
        parts += [_Part(*part) for part in zip(names, a, b, strict=True)]
    return parts


def save_peft(folder: Path, layout: Layout, flat: Tensor, base_model: str) -> None:
    """Write a PEFT folder. BadRequest where the name is taken, EngineFault where it cannot be written."""
    parts = _parts(layout, flat)
    tensors = {}
    for part in parts:
        tensors[f"{PREFIX}{part.module}.lora_A.weight"] = part.a.t().contiguous()
        tensors[f"{PREFIX}{part.module}.lora_B.weight"] = part.b.t().contiguous()
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_model,
        "r": layout.shape.rank,
        "lora_alpha": layout.shape.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted({part.module.rsplit(".", 1)[-1] for part in parts}),
        "inference_mode": True,
    }
    with whole_folder(folder) as partial:
        save_file(tensors, partial / "adapter_model.safetensors")
        (partial / "adapter_config.json").write_text(json.dumps(config, indent=2))


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "adapter_config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"{folder} is no PEFT folder: it has no adapter_config.json") from None
    except (OSError, ValueError) as error:
        raise EngineFault(f"{path} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise EngineFault(f"{path} cannot be read: it holds no table")
    refused = {
        "bias": config.get("bias", "none") != "none",
        "modules_to_save": bool(config.get("modules_to_save")),
        "rank_pattern": bool(config.get("rank_pattern")),
        "alpha_pattern": bool(config.get("alpha_pattern")),
        "use_dora": bool(config.get("use_dora")),
        "peft_type": config.get("peft_type") != "LORA",
    }
    wrong = [key for key, bad in refused.items() if bad]
    if wrong:
        raise BadRequest(f"{folder} uses {', '.join(wrong)} in a way that this engine cannot hold: plain LoRA only")
    return config


def _read_shape(folder: Path) -> AdapterShape:
    config = _read_config(folder)
    rank, alpha, names = config.get("r"), config.get("lora_alpha"), config.get("target_modules")
    wrong = isinstance(rank, bool) or isinstance(alpha, bool)  # True is 1 in Python, and no number in JSON
    if wrong or not isinstance(rank, int) or rank < 1 or not isinstance(alpha, int | float):
        raise BadRequest(
            f"{folder}: r is {rank!r} and lora_alpha {alpha!r}; a rank of at least 1 and a number are needed"
        )
    if not isinstance(names, list):
        raise BadRequest(f"{folder}: target_modules must be a list of names, not {names!r}")
    targets = {str(name).rsplit(".", 1)[-1] for name in names}
    if not targets <= ATTENTION | MLP | {HEAD}:
        raise BadRequest(f"{folder} targets {sorted(targets - ATTENTION - MLP - {HEAD})}, which cannot be adapted here")
    return AdapterShape(
        rank=rank,
        alpha=float(alpha) * (math.sqrt(rank) if config.get("use_rslora") else 1.0),
        attention=bool(targets & ATTENTION),
        mlp=bool(targets & MLP),
        unembed=HEAD in targets,
    )


def load_peft(folder: Path, lay_out: Callable[[AdapterShape], Layout]) -> LoadedAdapter:
    """Read a PEFT folder; projections that it leaves out are zero. `lay_out` refuses a shape that cannot be.

    NotFound: not a PEFT folder. BadRequest: not plain LoRA, of another base model, or weights that are no numbers.
    EngineFault: a torn file.
    """
    layout = lay_out(_read_shape(folder))
    try:
        tensors = load_file(folder / "adapter_model.safetensors")
    except (OSError, SafetensorError) as error:
        raise EngineFault(f"{folder}/adapter_model.safetensors cannot be read: {error}") from error
    flat = torch.zeros(layout.size)
    for part in _parts(layout, flat):
        for kind, view in (("lora_A", part.a), ("lora_B", part.b)):
            tensor = tensors.pop(f"{PREFIX}{part.module}.{kind}.weight", None)
            if tensor is None:
                continue
            if tensor.shape != view.t().shape:
                raise BadRequest(
                    f"{folder}: {part.module} {kind} is {tuple(tensor.shape)}, this base model needs "
                    f"{tuple(view.t().shape)}: the adapter belongs to another base model"
                )
            view.copy_(tensor.t().float())
    extra = [name for name in tensors if ".base_layer." not in name]  # PEFT writes the frozen head beside its adapter
    if extra:
        raise BadRequest(f"{folder} holds weights that have no place here, such as {extra[0]}")
    if not all_finite(flat):
        raise BadRequest(f"{folder} holds NaN or infinite weights: the run has diverged, take an earlier version")
    return LoadedAdapter(layout, flat)
