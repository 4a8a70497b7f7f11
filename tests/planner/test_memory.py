"""The memory arithmetic against what the engine really makes, and against `transformers` for other architectures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, NemotronHConfig, PreTrainedConfig, Qwen3_5TextConfig, Qwen3MoeConfig
from transformers.cache_utils import DynamicLayer, LinearAttentionLayer
from typer.testing import CliRunner

from motet.cli import app
from motet.engine.adapters.layout import fresh_weights, make_layout
from motet.engine.adapters.run import Run, Version
from motet.engine.models.base import open_base_model, resolve
from motet.engine.models.decoder import Decoder
from motet.engine.ops.attention import BLOCK, KVPool
from motet.engine.ops.lora import AdapterTensors
from motet.engine.trainer.packing import cut_pieces
from motet.engine.trainer.trainer import PassPart, Trainer
from motet.engine.types import AdapterShape, Datum, Dtype, Loss
from motet.errors import BadConfig
from motet.planner.memory import GIB, Load, Placement, bytes_of, most_runs
from motet.planner.sizes import Sizes, read_sizes
from tests.tiny import FAMILIES, make_tiny_model

HERE = Placement(packed_head=True)


def weights_of(decoder: Decoder) -> int:
    """Bytes of every tensor that a decoder holds, each storage once."""
    products = [decoder.head] + [p for w in decoder.layers for p in (w.qkv, w.o, w.gate_up, w.down)]
    tensors = [decoder.embed, decoder.final_norm, *(product.data for product in products)]
    tensors += [tensor for w in decoder.layers for tensor in vars(w).values() if isinstance(tensor, Tensor)]
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


@pytest.mark.parametrize("model", [*FAMILIES, "pocket"])
def test_as_the_engine_has_it(model: str, tmp_path: Path) -> None:
    """The base model within its panels' padding, the rest to the byte."""
    folder = resolve(model) if model == "pocket" else make_tiny_model(tmp_path, model)
    base, sizes = open_base_model(str(folder), "bfloat16", "cpu"), read_sizes(str(folder))
    (told,) = bytes_of(sizes, Load(runs=1, rank=5, sequences=3, context=160, pass_rows=1), HERE)
    assert sizes.parameters == base.decoder.parameters()
    assert told.base == pytest.approx(weights_of(base.decoder), rel=0.01)
    config = base.decoder.config
    for unembed in (False, True):
        assert sizes.adapter(5, unembed) == make_layout(config, AdapterShape(rank=5, unembed=unembed)).size
    layout, device = make_layout(config, AdapterShape(rank=5, unembed=False)), torch.device("cpu")
    run = Run("r", layout, {"master": fresh_weights(layout, 0)}, 0, torch.bfloat16, device, tmp_path / "r")
    run.set_gradient(torch.ones(layout.size))
    run.take_step(1, run.master, run.master.clone(), run.master.clone())
    assert told.runs == run.nbytes()
    version = Version("v", 1, layout, run.compute.clone(), tmp_path / "v")
    assert told.versions == 2 * version.nbytes()
    blocks = 3 * 160 // BLOCK
    pool = KVPool(config.layers, blocks, config.kv_heads, config.head_width, torch.bfloat16, device)
    assert told.keys_and_values == pool.k.nbytes + pool.v.nbytes


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_pass_keeps_what_was_said(family: str, dtype: Dtype, tmp_path: Path) -> None:
    """What autograd holds when the backward begins, counted where it is kept."""
    folder = make_tiny_model(tmp_path, family, hidden_size=96, intermediate_size=256, num_hidden_layers=4)
    base, sizes = open_base_model(str(folder), dtype, "cpu"), read_sizes(str(folder))
    layout = make_layout(base.decoder.config, AdapterShape(rank=2))
    flat = fresh_weights(layout, 0)
    adapter = AdapterTensors(flat.to(base.decoder.dtype), layout.plan, 2, 1.0, torch.zeros_like(flat))
    tokens = np.arange(200)
    (piece,) = cut_pieces((Datum(tokens, tokens + 1, np.ones(200, np.float32)),), 4096)
    kept = dict[int, int]()

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    def give(tensor: Tensor) -> Tensor:
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, give):
        Trainer(base.decoder).run([PassPart(piece, adapter, Loss())], backward=True)
    item = base.decoder.embed.element_size()
    assert sum(layer.kept for layer in sizes.layers) * 200 * item == pytest.approx(sum(kept.values()), rel=0.05)


OTHERS: list[PreTrainedConfig] = [
    Qwen3MoeConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, num_experts=8,
        num_experts_per_tok=2, moe_intermediate_size=32, vocab_size=320,
    ),
    NemotronHConfig(
        hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16, vocab_size=320, n_routed_experts=4,
        moe_intermediate_size=32, intermediate_size=96, mamba_num_heads=8, mamba_head_dim=16, ssm_state_size=16,
        n_groups=2, moe_shared_expert_intermediate_size=48,
    ),
    Qwen3_5TextConfig(
        hidden_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16, vocab_size=320,
        intermediate_size=96, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=16,
        linear_value_head_dim=16,
    ),
]  # fmt: skip


@pytest.mark.parametrize("config", OTHERS, ids=lambda config: str(config.model_type))
def test_other_architectures_as_transformers_has_them(config: PreTrainedConfig, tmp_path: Path) -> None:
    """Parameters, and what a sequence of 24 tokens leaves in the cache: keys, values and recurrent state."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    config.save_pretrained(tmp_path)
    sizes = read_sizes(str(tmp_path))
    assert sizes.parameters == sum(parameter.numel() for parameter in model.parameters())
    with torch.no_grad():
        cache = model(torch.arange(24)[None], use_cache=True).past_key_values
    linear = [layer for layer in cache.layers if isinstance(layer, LinearAttentionLayer)]
    states = [
        state for layer in linear for kept in (layer.conv_states, layer.recurrent_states) for state in kept.values()
    ]
    pairs = [layer for layer in cache.layers if isinstance(layer, DynamicLayer)]
    assert sum(pair.keys.numel() + pair.values.numel() for pair in pairs) == 24 * sizes.cached
    assert sum(state.numel() for state in states) == sizes.state


def plain(layers: int = 2) -> Sizes:
    from motet.planner.sizes import Layer

    return Sizes(1_000, 10, 20, False, 0, tuple(Layer(400, 380, 50, 8, 100) for _ in range(layers)))


def test_placements_by_hand() -> None:
    load = Load(runs=3, rank=2, sequences=8, context=100, pass_rows=10)
    (alone,) = bytes_of(plain(), load, Placement())
    assert (alone.base, alone.runs, alone.versions) == (2_000, 3 * 200 * 18, 2 * 3 * 200 * 2)
    assert alone.keys_and_values == 8 * 100 * 16 * 2
    training, sampling = bytes_of(plain(), load, Placement(training=4, sampling=4, split=2))
    assert (training.base, training.gathered, training.runs) == (500, 2 * 400 * 2, alone.runs)
    assert (sampling.base, sampling.versions, sampling.keys_and_values) == (
        1_000,
        alone.versions,
        8 * 100 * 16 * 2 // 4,
    )
    assert (training.versions, training.keys_and_values, sampling.runs, sampling.training_pass) == (0, 0, 0, 0)
    (small,) = bytes_of(plain(), Load(3, 2, 8, 100, 10, dtype="nf4"), Placement())
    assert small.base == round(760 * 4.127 / 8 + 240 * 2)
    (again,) = bytes_of(plain(8), Load(3, 2, 8, 100, 10, checkpointing=True), Placement())
    (kept,) = bytes_of(plain(8), load, Placement())
    assert kept.training_pass - again.training_pass == 10 * (8 * 100 - (8 * 10 + 100)) * 2


def test_most_runs_is_where_it_ends_to_fit() -> None:
    load, placement = Load(1, 2, 8, 100, 10), Placement(training=2, sampling=1)
    room = most_runs(plain(), load, placement, device_bytes=1e5)
    for runs, fits in ((room, True), (room + 1, False)):
        devices = bytes_of(plain(), Load(runs, 2, 8, 100, 10), placement)
        assert all(one.total <= 1e5 for one in devices) == fits
    assert most_runs(plain(), load, placement, device_bytes=10) < 0


@pytest.mark.parametrize("wrong", [(0, 0, 1), (2, 0, 1), (1, 3, 2), (1, -1, 1)])
def test_placements_that_cannot_be(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(BadConfig):
        Placement(*wrong)


def test_the_command_refuses_what_does_not_fit(tmp_path: Path) -> None:
    def plan(*flags: str) -> tuple[int, str]:
        ended = CliRunner().invoke(app, ["plan", "memory", "pocket", *flags])
        return ended.exit_code, ended.output

    code, told = plan("--device-gib", "8")
    assert code == 0 and "1,166,816 parameters" in told and "fits into 8 GiB" in told
    code, told = plan("--device-gib", "2", "--sequences", "4096")
    assert code == 1 and "does not fit" in told and "not even one run would: lower sequences" in told
    code, told = plan("--training-ranks", "2", "--sampling-devices", "2")
    assert code == 0 and "training, GiB" in told and "layers brought together" in told
    with pytest.raises(BadConfig, match=r"no config.json"):
        read_sizes(str(tmp_path))
    assert GIB == 1024**3
