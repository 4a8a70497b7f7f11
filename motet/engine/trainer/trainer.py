"""The trainer: one forward and one backward over the waiting datums of many runs.

It knows rows and adapters, never runs or tenants. Layers are taken one at a time, so that between any two of them the
sampling lane may step in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from motet.engine.models.decoder import Attend, Decoder
from motet.engine.ops.attention import packed_attention
from motet.engine.ops.lora import AdapterTensors, LoraBatch
from motet.engine.trainer.head import Head, PieceResult
from motet.engine.trainer.packing import Pack, Piece, pack
from motet.engine.types import Loss


@dataclass(frozen=True, eq=False)
class PassPart:
    """One piece in a pass: through which adapter, under which loss."""

    piece: Piece
    adapter: AdapterTensors
    loss: Loss


@dataclass(frozen=True, eq=False)
class _Station:
    """A layer's input and output, the bit of graph between them kept until the backward comes by."""

    x_in: Tensor
    x_out: Tensor


def _lora_of(parts: list[PassPart], bounds: list[int]) -> LoraBatch:
    """Pieces of one run that follow each other are one segment: their gradient is summed in order of rows."""
    starts, adapters = list[int](), list[AdapterTensors]()
    for part, start in zip(parts, bounds, strict=False):
        if not adapters or adapters[-1] is not part.adapter:
            starts.append(start)
            adapters.append(part.adapter)
    return LoraBatch((*starts, bounds[-1]), tuple(adapters))


class Trainer:
    """Runs passes. `breathe` is called between layers."""

    def __init__(self, decoder: Decoder, breathe: Callable[[], None] = lambda: None) -> None:
        self._decoder = decoder
        self._breathe = breathe

    def run(self, parts: list[PassPart], backward: bool) -> list[PieceResult]:
        """One pass; with `backward` each adapter's `grad` has its parts' gradient added. Results in order.

        Parts of one adapter must follow each other.
        """
        packed = pack([part.piece for part in parts], self._decoder.device)
        lora = _lora_of(parts, packed.bounds)
        stations, hidden = self._forward(packed, lora, backward)
        heads = [
            Head(self._decoder, hidden.detach()[start:stop], part.adapter, part.piece, part.loss)
            for part, start, stop in zip(parts, packed.bounds, packed.bounds[1:], strict=False)
        ]
        results = [head.run(backward, self._breathe) for head in heads]
        if backward:
            self._backward(stations, torch.cat([head.gradient for head in heads]))
        return results

    def _attend(self, packed: Pack) -> Attend:
        scale, sequences = self._decoder.scale, packed.sequences
        return lambda layer, q_NHE, k_NKE, v_NKE: packed_attention(q_NHE, k_NKE, v_NKE, sequences, scale)

    def _forward(self, packed: Pack, lora: LoraBatch, backward: bool) -> tuple[list[_Station], Tensor]:
        decoder, attend = self._decoder, self._attend(packed)
        stations = []
        x_ND = decoder.embedded(packed.tokens)
        for index in range(decoder.config.layers + 1):
            self._breathe()
            x_in = x_ND.detach().requires_grad_(backward)
            with torch.set_grad_enabled(backward):
                last = index == decoder.config.layers
                x_ND = decoder.normed(x_in) if last else decoder.layer(index, x_in, packed.positions, attend, lora)
            if backward:
                stations.append(_Station(x_in, x_ND))
        return stations, x_ND

    def _backward(self, stations: list[_Station], gradient_ND: Tensor) -> None:
        while stations:
            self._breathe()
            station = stations.pop()
            torch.autograd.backward(station.x_out, gradient_ND)
            assert station.x_in.grad is not None
            gradient_ND = station.x_in.grad
