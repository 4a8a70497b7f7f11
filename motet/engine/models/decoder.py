"""The decoder of the Llama, Qwen2 and Qwen3 families: one module for sampler and trainer.

Every step of it works row by row; only `attend` looks at other tokens, and it is the caller's: the sampler's reads a
paged cache, the trainer's the packed batch. So a token's numbers are the same in a decode, a prefill and a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from motet.engine.models.config import ModelConfig
from motet.engine.models.rope import RopeTable
from motet.engine.models.weights import (
    ATTENTION_NORM,
    DOWN,
    EMBEDDING,
    FINAL_NORM,
    GATE_UP,
    HEAD,
    KEY_NORM,
    MLP_NORM,
    OUT,
    QKV,
    QUERY_NORM,
    SITES,
    in_layer,
)
from motet.engine.ops.linear import BaseWeight, linear
from motet.engine.ops.lora import LoraBatch
from motet.engine.ops.rows import rms_norm, rope, swiglu

# attend(layer, q_NHE, k_NKE, v_NKE) -> out_NHE
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Layer:
    """The frozen weights of one layer; biases and per-head norms where the family has them."""

    input_norm: Tensor
    qkv: BaseWeight
    qkv_bias: Tensor | None
    q_norm: Tensor | None
    k_norm: Tensor | None
    o: BaseWeight
    o_bias: Tensor | None
    ffn_norm: Tensor
    gate_up: BaseWeight
    gate_up_bias: Tensor | None
    down: BaseWeight
    down_bias: Tensor | None


def _project(x: Tensor, weight: BaseWeight, bias: Tensor | None, lora: LoraBatch | None, site: int) -> Tensor:
    y = linear(x, weight, lora, site)
    return y if bias is None else y + bias


class Decoder:
    """A frozen base model. Stateless: whatever belongs to a sequence comes in as an argument."""

    def __init__(self, config: ModelConfig, weights: Mapping[str, Tensor], dtype: torch.dtype, device: str) -> None:
        self.config = config
        self.dtype = dtype
        self.device = torch.device(device)
        self.scale = config.head_width**-0.5
        self.rope = RopeTable(config, dtype, self.device)
        self.embed = self._tensor(weights, f"{EMBEDDING}.weight")
        self.layers = [self._build_layer(weights, index) for index in range(config.layers)]
        self.final_norm = self._tensor(weights, f"{FINAL_NORM}.weight")
        head = self.embed if config.tied_head else self._tensor(weights, f"{HEAD}.weight")
        self.head = BaseWeight.pack(head, (config.vocabulary,))
        self.head_site = len(SITES) * config.layers  # the last site of all

    def _tensor(self, weights: Mapping[str, Tensor], name: str) -> Tensor:
        return weights[name].to(self.device, self.dtype)

    def _build_layer(self, weights: Mapping[str, Tensor], index: int) -> Layer:
        config = self.config

        def product(site: tuple[str, ...]) -> BaseWeight:
            parts = [self._tensor(weights, f"{in_layer(index, name)}.weight") for name in site]
            return BaseWeight.pack(torch.cat(parts), tuple(part.shape[0] for part in parts))

        def bias(site: tuple[str, ...], present: bool) -> Tensor | None:
            names = [f"{in_layer(index, name)}.bias" for name in site]
            return torch.cat([self._tensor(weights, name) for name in names]) if present else None

        def norm(name: str) -> Tensor:
            return self._tensor(weights, f"{in_layer(index, name)}.weight")

        return Layer(
            input_norm=norm(ATTENTION_NORM),
            qkv=product(QKV),
            qkv_bias=bias(QKV, config.qkv_bias),
            q_norm=norm(QUERY_NORM) if config.qk_norm else None,
            k_norm=norm(KEY_NORM) if config.qk_norm else None,
            o=product(OUT),
            o_bias=bias(OUT, config.o_bias),
            ffn_norm=norm(MLP_NORM),
            gate_up=product(GATE_UP),
            gate_up_bias=bias(GATE_UP, config.mlp_bias),
            down=product(DOWN),
            down_bias=bias(DOWN, config.mlp_bias),
        )

    def embedded(self, tokens_N: Tensor) -> Tensor:
        """The embeddings (N, D) of token ids."""
        return self.embed[tokens_N]

    def layer(self, index: int, x_ND: Tensor, positions_N: Tensor, attend: Attend, lora: LoraBatch | None) -> Tensor:
        """One layer, residual stream in and out (N, D)."""
        w, config, site = self.layers[index], self.config, len(SITES) * index
        qkv = _project(rms_norm(x_ND, w.input_norm, config.rms_eps), w.qkv, w.qkv_bias, lora, site)
        q, k, v = qkv.split(list(w.qkv.splits), dim=1)
        q = q.view(-1, config.heads, config.head_width)
        k = k.view(-1, config.kv_heads, config.head_width)
        v = v.view(-1, config.kv_heads, config.head_width)
        if w.q_norm is not None and w.k_norm is not None:
            q, k = rms_norm(q, w.q_norm, config.rms_eps), rms_norm(k, w.k_norm, config.rms_eps)
        cos, sin = self.rope.at(positions_N)
        out = attend(index, rope(q, cos, sin), rope(k, cos, sin), v)
        x_ND = x_ND + _project(out.reshape(x_ND.shape[0], -1), w.o, w.o_bias, lora, site + 1)
        gate_up = _project(rms_norm(x_ND, w.ffn_norm, config.rms_eps), w.gate_up, w.gate_up_bias, lora, site + 2)
        return x_ND + _project(swiglu(gate_up), w.down, w.down_bias, lora, site + 3)

    def normed(self, x_ND: Tensor) -> Tensor:
        """The final norm: what the head reads."""
        return rms_norm(x_ND, self.final_norm, self.config.rms_eps)

    def logits(self, hidden_ND: Tensor, lora: LoraBatch | None) -> Tensor:
        """Logits (N, V) in float32 of rows that `normed` gave."""
        return linear(hidden_ND, self.head, lora, self.head_site, out_dtype=torch.float32)

    def parameters(self) -> int:
        """The number of frozen parameters."""
        vectors = [self.embed, self.final_norm]
        products = [] if self.config.tied_head else [self.head]
        for layer in self.layers:
            products += [layer.qkv, layer.o, layer.gate_up, layer.down]
            vectors += [layer.input_norm, layer.ffn_norm]
            optional = (layer.qkv_bias, layer.o_bias, layer.q_norm, layer.k_norm, layer.gate_up_bias, layer.down_bias)
            vectors += [tensor for tensor in optional if tensor is not None]
        return sum(p.d_in * p.d_out for p in products) + sum(v.numel() for v in vectors)
