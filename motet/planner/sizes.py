"""What there is in a model, counted from its configuration: built without weights on torch's meta device.

So every architecture that `transformers` knows is counted exactly, hybrids and fused experts too, and a folder with
config.json alone is enough. What a sequence and a training pass take is read off the same layers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig

from motet.errors import BadConfig

LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
CLOSING = ("o_proj", "out_proj", "down_proj")  # they end a block: the others of a block read the same rows
EXPERTS = 3  # dimensions of a fused weight (experts, D_out, D_in)


@dataclass(frozen=True)
class Layer:
    """One layer, in numbers, not bytes."""

    parameters: int
    products: int  # of them in matrices: linear layers and experts
    adapted: int  # D_in + D_out of each of these: an adapter of rank 1
    cached: int  # keys and values of a token
    kept: int  # of a row, that a training pass keeps from its forward to its backward


@dataclass(frozen=True)
class Sizes:
    """A model, in numbers, not bytes."""

    parameters: int
    width: int
    vocabulary: int
    tied: bool  # the head is the embedding
    state: int  # of a sequence in recurrent layers, however long it is
    layers: tuple[Layer, ...]

    @property
    def products(self) -> int:
        return sum(layer.products for layer in self.layers)

    @property
    def cached(self) -> int:
        """Keys and values of a token."""
        return sum(layer.cached for layer in self.layers)

    def adapter(self, rank: int, unembed: bool = False) -> int:
        """Numbers in an adapter on every linear layer and expert, and on the head where asked for."""
        head = self.width + self.vocabulary if unembed else 0
        return rank * (sum(layer.adapted for layer in self.layers) + head)


def read_sizes(model: str) -> Sizes:
    """Of a folder or of the hub's name. BadConfig: no configuration of a language model."""
    try:
        folder = model if Path(model).exists() else str(Path(hf_hub_download(model, "config.json")).parent)
        config = AutoConfig.from_pretrained(folder).get_text_config()
        with torch.device("meta"):
            network = AutoModelForCausalLM.from_config(config)
    except (OSError, ValueError, KeyError, HfHubHTTPError, HFValidationError, LocalEntryNotFoundError) as error:
        told = str(error).splitlines()[0]
        raise BadConfig(f"{model} has no config.json of a language model ({told}): name such a folder") from None
    return _count(network, config)


def _count(network: nn.Module, config: PreTrainedConfig) -> Sizes:
    layers = defaultdict[int, dict[str, nn.Module]](dict)
    for name, module in network.named_modules():
        if found := LAYER.search(f"{name}."):
            layers[int(found[1])][name] = module
    return Sizes(
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        width=config.hidden_size,
        vocabulary=config.vocab_size,
        tied=bool(config.tie_word_embeddings),
        state=sum(_state(layer.values(), config) for layer in layers.values()),
        layers=tuple(_layer(layer, config) for _, layer in sorted(layers.items())),
    )


def _layer(modules: dict[str, nn.Module], config: PreTrainedConfig) -> Layer:
    linears = {name: module for name, module in modules.items() if isinstance(module, nn.Linear)}
    own = [parameter for module in modules.values() for parameter in module.parameters(recurse=False)]
    experts = [parameter for parameter in own if parameter.ndim == EXPERTS and parameter.shape[1] > 1]
    chosen = getattr(config, "num_experts_per_tok", None) or 1
    return Layer(
        parameters=sum(parameter.numel() for parameter in own),
        products=sum(linear.weight.numel() for linear in linears.values()) + sum(one.numel() for one in experts),
        adapted=sum(linear.in_features + linear.out_features for linear in linears.values())
        + sum(one.shape[0] * (one.shape[1] + one.shape[2]) for one in experts),
        cached=sum(linear.out_features for name, linear in linears.items() if name.endswith(("k_proj", "v_proj"))),
        kept=_kept(linears, config) + chosen * sum(one.shape[1] + one.shape[2] for one in experts),
    )


def _kept(linears: dict[str, nn.Linear], config: PreTrainedConfig) -> int:
    """What goes into a block's products, once for those that read the same rows, and what comes out of each; queries
    and keys a second time, turned to their positions, with that turn's sines and cosines."""
    read = {(*name.rsplit(".", 1)[:1], name.endswith(CLOSING)): linear.in_features for name, linear in linears.items()}
    turned = sum(linear.out_features for name, linear in linears.items() if name.endswith(("q_proj", "k_proj")))
    angles = 2 * (getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
    return sum(read.values()) + sum(one.out_features for one in linears.values()) + (turned and turned + angles)


def _state(modules: Iterable[nn.Module], config: PreTrainedConfig) -> int:
    """Mamba-2 (heads x width x state) and gated delta rule (value heads x key width x value width), with the few
    inputs that a convolution sees; 0 for a layer that has neither."""
    convolutions = [module for module in modules if isinstance(module, nn.Conv1d)]
    if not convolutions:
        return 0
    back = sum(one.out_channels * one.kernel_size[0] for one in convolutions)
    if getattr(config, "mamba_num_heads", None):
        return back + config.mamba_num_heads * config.mamba_head_dim * config.ssm_state_size
    return back + config.linear_num_value_heads * config.linear_key_head_dim * config.linear_value_head_dim
