"""Runs one step's chunks through the base model in one batch, each row through its own adapter. Tensors, no policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from motet.engine.models.decoder import Decoder
from motet.engine.ops.attention import KVPool, PagedRows, paged_attention
from motet.engine.ops.lora import AdapterTensors, LoraBatch
from motet.engine.sampler.blocks import BLOCK
from motet.engine.sampler.sequence import BlockCopy, Chunk


@dataclass(frozen=True, eq=False)
class Rows:
    """The chunks of a step in the order in which they were run, and what the base model made of their rows."""

    chunks: list[Chunk]
    bounds: np.ndarray  # chunk i has rows [bounds[i], bounds[i + 1])
    hidden: Tensor  # (N, D), normed
    lora: LoraBatch | None


def lora_batch(adapters: list[AdapterTensors | None], bounds: np.ndarray) -> LoraBatch | None:
    """Join neighbouring chunks of one adapter. None where all are of the plain base model."""
    starts, joined = list[int](), list[AdapterTensors | None]()
    for adapter, start in zip(adapters, bounds, strict=False):
        if not joined or adapter is not joined[-1]:
            joined.append(adapter)
            starts.append(int(start))
    if all(adapter is None for adapter in joined):
        return None
    return LoraBatch((*starts, int(bounds[-1])), tuple(joined))


class Runner:
    """Holds the pool of cached keys and values, and the decoder that fills it. `breathe` is called between layers."""

    def __init__(self, decoder: Decoder, blocks: int, breathe: Callable[[], None] = lambda: None) -> None:
        config = decoder.config
        self.decoder = decoder
        self._breathe = breathe
        self.pool = KVPool(
            config.layers, blocks, config.kv_heads, config.head_width, decoder.dtype, decoder.device, BLOCK
        )

    def copy(self, copies: list[BlockCopy]) -> None:
        for copy in copies:
            self.pool.copy_block(copy.source, copy.target)

    def run(self, chunks: list[Chunk]) -> Rows:
        """One forward over all chunks. Their keys and values stand in the pool afterwards."""
        chunks = sorted(chunks, key=lambda chunk: chunk.sequence.group.owner)
        counts = np.array([chunk.count for chunk in chunks])
        bounds = np.concatenate([[0], np.cumsum(counts)])
        starts = np.array([chunk.start for chunk in chunks])
        positions = np.arange(bounds[-1]) - np.repeat(bounds[:-1] - starts, counts)
        tables = self._block_tables(chunks)
        owner = np.repeat(np.arange(len(chunks)), counts)
        places = torch.from_numpy(tables[owner, positions // BLOCK].astype(np.int64) * BLOCK + positions % BLOCK)
        tokens = torch.from_numpy(
            np.concatenate([np.asarray(c.sequence.tokens[c.start : c.start + c.count]) for c in chunks])
        )
        rows = PagedRows(bounds.astype(np.int32), tables, starts.astype(np.int32))
        lora = lora_batch([chunk.sequence.group.adapter for chunk in chunks], bounds)
        return Rows(chunks, bounds, self._forward(tokens, torch.from_numpy(positions), places, rows, lora), lora)

    def _block_tables(self, chunks: list[Chunk]) -> np.ndarray:
        widest = max(len(chunk.sequence.blocks) for chunk in chunks)
        tables = np.zeros((len(chunks), widest), np.int32)
        for table, chunk in zip(tables, chunks, strict=True):
            table[: len(chunk.sequence.blocks)] = chunk.sequence.blocks
        return tables

    @torch.no_grad()
    def _forward(
        self, tokens_N: Tensor, positions_N: Tensor, places_N: Tensor, rows: PagedRows, lora: LoraBatch | None
    ) -> Tensor:
        pool, scale = self.pool, self.decoder.scale

        def attend(layer: int, q_NHE: Tensor, k_NKE: Tensor, v_NKE: Tensor) -> Tensor:
            pool.write(layer, k_NKE, v_NKE, places_N)
            return paged_attention(q_NHE, pool, layer, rows, scale)

        device = self.decoder.device
        x_ND = self.decoder.embedded(tokens_N.to(device))
        positions_N, places_N = positions_N.to(device), places_N.to(device)
        for index in range(self.decoder.config.layers):
            self._breathe()
            x_ND = self.decoder.layer(index, x_ND, positions_N, attend, lora)
        return self.decoder.normed(x_ND)

    @torch.no_grad()
    def logits(self, rows: Rows, chosen: np.ndarray) -> Tensor:
        """Logits (len(chosen), V) of some of the rows, which must be in ascending order."""
        self._breathe()
        lora = rows.lora
        if lora is not None:
            bounds = np.searchsorted(chosen, lora.bounds)
            lora = LoraBatch(tuple(int(b) for b in bounds), lora.adapters)
        return self.decoder.logits(rows.hidden[torch.from_numpy(chosen).to(rows.hidden.device)], lora)
