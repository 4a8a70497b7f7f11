"""The names and shapes of a base model's tensors in a Hugging Face folder, checked before any of them is read."""

from __future__ import annotations

from motet.engine.models.config import ModelConfig
from motet.engine.models.loading import FolderWeights
from motet.errors import BadRequest

READABLE = ("F32", "BF16", "F16")
Shape = tuple[int, ...]

EMBEDDING = "model.embed_tokens"
FINAL_NORM = "model.norm"
HEAD = "lm_head"
# Within a layer:
ATTENTION_NORM, MLP_NORM = "input_layernorm", "post_attention_layernorm"
QUERY_NORM, KEY_NORM = "self_attn.q_norm", "self_attn.k_norm"
SITES = (
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("self_attn.o_proj",),
    ("mlp.gate_proj", "mlp.up_proj"),
    ("mlp.down_proj",),
)
"""The products of a layer in the order in which adapters count them; those of one site are fused into one."""
QKV, OUT, GATE_UP, DOWN = SITES


def in_layer(index: int, name: str) -> str:
    """The full name of a part of a layer."""
    return f"model.layers.{index}.{name}"


def expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Every tensor that the decoder asks for, by its name in the folder."""
    shapes: dict[str, Shape] = {
        f"{EMBEDDING}.weight": (config.vocabulary, config.width),
        f"{FINAL_NORM}.weight": (config.width,),
    }
    if not config.tied_head:
        shapes[f"{HEAD}.weight"] = (config.vocabulary, config.width)
    for index in range(config.layers):
        shapes |= {in_layer(index, name): shape for name, shape in _layer_shapes(config).items()}
    return shapes


def _layer_shapes(config: ModelConfig) -> dict[str, Shape]:
    queries, keys, ffn = config.heads * config.head_width, config.kv_heads * config.head_width, config.ffn_width
    (q, k, v), (o,), (gate, up), (down,) = SITES
    inputs = {**dict.fromkeys([q, k, v, gate, up], config.width), o: queries, down: ffn}
    outputs = {q: queries, k: keys, v: keys, o: config.width, gate: ffn, up: ffn, down: config.width}
    biased = [q, k, v] * config.qkv_bias + [o] * config.o_bias + [gate, up, down] * config.mlp_bias
    shapes: dict[str, Shape] = {f"{name}.weight": (outputs[name], inputs[name]) for name in outputs}
    shapes |= {f"{name}.bias": (outputs[name],) for name in biased}
    shapes |= {f"{name}.weight": (config.width,) for name in (ATTENTION_NORM, MLP_NORM)}
    if config.qk_norm:
        shapes |= {f"{name}.weight": (config.head_width,) for name in (QUERY_NORM, KEY_NORM)}
    return shapes


def check_weights(weights: FolderWeights, config: ModelConfig) -> None:
    """Read the headers alone. NotFound: a tensor is missing. BadRequest: a shape or type that does not fit."""
    for name, shape in expected_shapes(config).items():
        header = weights.header(name)
        if header.shape != shape:
            raise BadRequest(
                f"{weights.folder}: {name} has the shape {header.shape} and config.json asks for {shape}: "
                "weights and configuration are not of the same model"
            )
        if header.dtype not in READABLE:
            raise BadRequest(
                f"{weights.folder}: {name} is stored as {header.dtype}; this engine reads {', '.join(READABLE)}: "
                "take the model that is not quantized"
            )
