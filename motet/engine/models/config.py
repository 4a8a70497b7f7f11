"""What the decoder needs to know of a base model, read from Hugging Face's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, GenerationConfig, PreTrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from motet.errors import BadRequest, NotFound

FAMILIES = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True, eq=False)
class ModelConfig:
    """Sizes and switches of one base model. Letters as in engine/types.py."""

    family: str
    layers: int
    width: int  # D
    heads: int  # H
    kv_heads: int  # K
    head_width: int  # E
    ffn_width: int
    vocabulary: int  # V
    context: int
    rms_eps: float
    inverse_frequencies: torch.Tensor  # (E / 2) float32
    rope_scale: float  # multiplies cosines and sines (yarn's attention factor)
    tied_head: bool
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool
    end_tokens: tuple[int, ...]


def read_config(folder: Path) -> ModelConfig:
    """Read a folder's config.json. NotFound: there is none. BadRequest: a base model this engine cannot run."""
    if not (folder / "config.json").is_file():
        raise NotFound(f"{folder} has no config.json: it is not a Hugging Face model folder")
    try:
        theirs = AutoConfig.from_pretrained(folder)
    except (ValueError, KeyError, OSError, StrictDataclassError) as error:
        known = ", ".join(FAMILIES)
        raise BadRequest(f"{folder}/config.json cannot be used (this engine runs {known}): {error}") from error
    _refuse_unsupported(folder, theirs)
    family = theirs.model_type
    attention_bias = bool(getattr(theirs, "attention_bias", False))
    head_width = getattr(theirs, "head_dim", None) or theirs.hidden_size // theirs.num_attention_heads
    rope = _rope(theirs, head_width)
    return ModelConfig(
        family=family,
        layers=theirs.num_hidden_layers,
        width=theirs.hidden_size,
        heads=theirs.num_attention_heads,
        kv_heads=theirs.num_key_value_heads,
        head_width=head_width,
        ffn_width=theirs.intermediate_size,
        vocabulary=theirs.vocab_size,
        context=theirs.max_position_embeddings,
        rms_eps=theirs.rms_norm_eps,
        inverse_frequencies=rope.inverse_frequencies,
        rope_scale=rope.scale,
        tied_head=bool(theirs.tie_word_embeddings),
        qkv_bias=family == "qwen2" or attention_bias,
        o_bias=family != "qwen2" and attention_bias,
        mlp_bias=bool(getattr(theirs, "mlp_bias", False)),
        qk_norm=family == "qwen3",
        end_tokens=_end_tokens(folder, theirs),
    )


def _refuse_unsupported(folder: Path, theirs: PreTrainedConfig) -> None:
    if theirs.model_type not in FAMILIES:
        raise BadRequest(
            f"{folder} is a {theirs.model_type} model; this engine runs {', '.join(FAMILIES)} (dense) itself"
        )
    if theirs.num_attention_heads % theirs.num_key_value_heads:
        raise BadRequest(
            f"{folder} has {theirs.num_attention_heads} heads, not a multiple of its "
            f"{theirs.num_key_value_heads} key/value heads: config.json is wrong"
        )
    if theirs.hidden_act != "silu":
        raise BadRequest(f"{folder} uses the activation {theirs.hidden_act}; this engine knows silu")
    if getattr(theirs, "quantization_config", None):
        raise BadRequest(f"{folder} is quantized; this engine reads float32, bfloat16 and float16: take the original")
    layers, window = getattr(theirs, "layer_types", None) or [], getattr(theirs, "sliding_window", None)
    if any(kind != "full_attention" for kind in layers) and (window or 0) < theirs.max_position_embeddings:
        raise BadRequest(
            f"{folder} looks back {window} tokens only (sliding-window attention), which this engine does not run; "
            f"a window of the whole context, {theirs.max_position_embeddings}, would do"
        )


class _Rope(NamedTuple):
    inverse_frequencies: torch.Tensor  # (E / 2) float32
    scale: float


def _rope(theirs: PreTrainedConfig, head_width: int) -> _Rope:
    """By transformers' own functions for each variant. BadRequest: a variant that is not run here."""
    parameters: dict[str, Any] = theirs.rope_parameters
    kind = parameters.get("rope_type", "default")
    if parameters.get("partial_rotary_factor", 1.0) != 1.0:
        raise BadRequest("rotary embeddings of a part of each head are not run by this engine")
    if kind in ("default", "dynamic"):  # dynamic differs only beyond the context
        exponents = torch.arange(0, head_width, 2, dtype=torch.int64).float() / head_width
        return _Rope(1.0 / (parameters["rope_theta"] ** exponents), 1.0)
    if kind not in ("linear", "llama3", "yarn"):
        known = "default, dynamic, linear, llama3 and yarn"
        raise BadRequest(f"rope variant {kind!r} is not run by this engine: {known} are")
    frequencies, factor = ROPE_INIT_FUNCTIONS[kind](theirs, torch.device("cpu"))
    return _Rope(frequencies, float(factor))


def _end_tokens(folder: Path, theirs: PreTrainedConfig) -> tuple[int, ...]:
    """The generation configuration's end tokens where it has some, else the model's. BadRequest: it is torn."""
    ends = theirs.eos_token_id
    if (folder / "generation_config.json").is_file():
        try:
            own = GenerationConfig.from_pretrained(folder).eos_token_id
        except (OSError, ValueError, TypeError) as error:
            raise BadRequest(f"{folder}/generation_config.json cannot be used: {error}") from error
        ends = ends if own is None else own  # it may be 0
    if ends is None:
        return ()
    return (ends,) if isinstance(ends, int) else tuple(ends)
