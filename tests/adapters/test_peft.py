"""PEFT folders: ours in `peft`, theirs in ours, with equal logits."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

from motet.engine.adapters.layout import Layout, fresh_weights, make_layout
from motet.engine.adapters.peft import load_peft, save_peft
from motet.engine.models.base import open_base_model
from motet.engine.models.config import read_config
from motet.engine.ops.lora import AdapterTensors, LoraBatch
from motet.engine.trainer.packing import cut_pieces, pack
from motet.engine.trainer.trainer import Trainer
from motet.engine.types import AdapterShape, Datum
from motet.errors import BadRequest, EngineFault, NotFound
from tests.tiny import make_tiny_model

TOKENS = torch.randint(0, 300, (40,), generator=torch.Generator().manual_seed(2))
SHAPES = [
    AdapterShape(rank=4),
    AdapterShape(rank=3, alpha=7, mlp=False),
    AdapterShape(rank=8, attention=False, unembed=True),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_tiny_model(tmp_path, "qwen2")


def laid_out(folder: Path) -> Callable[[AdapterShape], Layout]:
    return partial(make_layout, read_config(folder))


@torch.no_grad()
def our_logits(folder: Path, layout, flat: torch.Tensor) -> torch.Tensor:  # type: ignore[no-untyped-def]
    decoder = open_base_model(str(folder), "float32", "cpu").decoder
    array = TOKENS.numpy().astype(np.int64)
    packed = pack(cut_pieces((Datum(array, array),), 1000), decoder.device)
    lora = LoraBatch((0, 40), (AdapterTensors(flat, layout.plan, layout.shape.rank, layout.shape.scale),))
    _, hidden = Trainer(decoder)._forward(packed, lora, backward=False)
    return decoder.logits(hidden, lora)


@pytest.mark.parametrize("shape", SHAPES)
def test_ours_loads_in_peft(folder: Path, tmp_path: Path, shape: AdapterShape) -> None:
    layout = make_layout(read_config(folder), shape)
    flat = fresh_weights(layout, 1) + 0.05 * torch.randn(layout.size, generator=torch.Generator().manual_seed(1))
    save_peft(tmp_path / "adapter", layout, flat, "base")
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        plain = base(TOKENS[None]).logits[0]
        theirs = PeftModel.from_pretrained(base, tmp_path / "adapter")(TOKENS[None]).logits[0]
    ours = our_logits(folder, layout, flat)
    assert (plain - theirs).abs().max() > 0.1
    torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=1e-4)
    again = load_peft(tmp_path / "adapter", laid_out(folder))
    assert again.layout.shape == shape and torch.equal(again.flat, flat)


@pytest.mark.parametrize("targets", [["q_proj", "v_proj"], ["down_proj", "o_proj", "lm_head"]])
@pytest.mark.parametrize("rslora", [False, True])
def test_theirs_loads_in_ours(folder: Path, tmp_path: Path, targets: list[str], rslora: bool) -> None:
    """Also where it touches only some of the projections that we fuse."""
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    wrapped = get_peft_model(base, LoraConfig(r=4, lora_alpha=6, target_modules=targets, use_rslora=rslora))
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_" in name:
                parameter.normal_(0, 0.1)
        theirs = wrapped(TOKENS[None]).logits[0]
    wrapped.save_pretrained(tmp_path / "theirs")
    loaded = load_peft(tmp_path / "theirs", laid_out(folder))
    torch.testing.assert_close(our_logits(folder, loaded.layout, loaded.flat), theirs, atol=2e-4, rtol=1e-4)


def test_what_cannot_be_loaded_is_refused(folder: Path, tmp_path: Path) -> None:
    lay_out = laid_out(folder)
    with pytest.raises(NotFound):
        load_peft(tmp_path, lay_out)
    layout = lay_out(AdapterShape(rank=2))
    target = tmp_path / "adapter"
    save_peft(target, layout, fresh_weights(layout, 0), "base")
    with pytest.raises(BadRequest, match="exists"):
        save_peft(target, layout, fresh_weights(layout, 0), "base")
    other = make_tiny_model(tmp_path / "other", "qwen2", hidden_size=48)
    with pytest.raises(BadRequest, match="another base model"):
        load_peft(target, laid_out(other))
    written = json.loads((target / "adapter_config.json").read_text())
    changes: list[dict[str, object]] = [
        *({"use_dora": True}, {"bias": "all"}, {"target_modules": ["c_attn"]}, {"rank_pattern": {"q": 1}}),
        *({"target_modules": "all-linear"}, {"r": 0}, {"r": "two"}, {"lora_alpha": None}, {"r": True}),
    ]
    for change in changes:
        (target / "adapter_config.json").write_text(json.dumps({**written, **change}))
        with pytest.raises(BadRequest):
            load_peft(target, lay_out)
    for torn in (b'{"r": 2', b"[]", b"\xff"):
        (target / "adapter_config.json").write_bytes(torn)
        with pytest.raises(EngineFault, match="adapter_config.json cannot be read"):
            load_peft(target, lay_out)
    (target / "adapter_config.json").write_text(json.dumps(written))
    weights = target / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(EngineFault, match="cannot be read"):
        load_peft(target, lay_out)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(folder: Path, tmp_path: Path, value: float) -> None:
    layout = laid_out(folder)(AdapterShape(rank=2))
    flat = fresh_weights(layout, 0)
    flat[-1] = value
    save_peft(tmp_path / "adapter", layout, flat, "base")
    with pytest.raises(BadRequest, match="NaN"):
        load_peft(tmp_path / "adapter", laid_out(folder))
