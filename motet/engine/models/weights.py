"""The names and shapes of a base model's tensors in a Hugging Face folder, checked before any of them is read."""

from __future__ import annotations

from motet.engine.models.config import ModelConfig
from motet.engine.models.loading import FolderWeights
from motet.errors import BadRequest

READABLE = ("F32", "BF16", "F16")
Shape = tuple[int, ...]


def expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Every tensor that the decoder asks for, by its name in the folder."""
    shapes: dict[str, Shape] = {
        "model.embed_tokens.weight": (config.vocabulary, config.width),
        "model.norm.weight": (config.width,),
    }
    if not config.tied_head:
        shapes["lm_head.weight"] = (config.vocabulary, config.width)
    for index in range(config.layers):
        shapes |= {f"model.layers.{index}.{name}": shape for name, shape in _layer_shapes(config).items()}
    return shapes


def _layer_shapes(config: ModelConfig) -> dict[str, Shape]:
    queries, keys = config.heads * config.head_width, config.kv_heads * config.head_width
    products = {
        "self_attn.q_proj": (queries, config.width, config.qkv_bias),
        "self_attn.k_proj": (keys, config.width, config.qkv_bias),
        "self_attn.v_proj": (keys, config.width, config.qkv_bias),
        "self_attn.o_proj": (config.width, queries, config.o_bias),
        "mlp.gate_proj": (config.ffn_width, config.width, config.mlp_bias),
        "mlp.up_proj": (config.ffn_width, config.width, config.mlp_bias),
        "mlp.down_proj": (config.width, config.ffn_width, config.mlp_bias),
    }
    shapes: dict[str, Shape] = {f"{name}.weight": (out, into) for name, (out, into, _) in products.items()}
    shapes |= {f"{name}.bias": (out,) for name, (out, _, biased) in products.items() if biased}
    shapes |= {f"{name}.weight": (config.width,) for name in ("input_layernorm", "post_attention_layernorm")}
    if config.qk_norm:
        shapes |= {f"self_attn.{part}_norm.weight": (config.head_width,) for part in "qk"}
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
