"""Attention over the paged cache (decode, prefill) and over a training pack: one routine, the same bits.

For each row and head: scores over its own keys, softmax, weighted sum, all in float32, in the order of the positions,
whatever else is in the batch. On a CPU it is a kernel (native/attend.h); elsewhere reference/attention.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from mmap import mmap
from typing import Any

import numpy as np
import torch
from torch import Tensor

from motet.engine.ops.native import library, usable
from motet.engine.ops.reference import attention as reference

BLOCK = 16  # positions in a block: one vector of the kernels


def _untouched(size: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros. On a CPU a page of them takes memory, and the time to clear it, once something is written there."""
    if device.type != "cpu" or 0 in size:
        return torch.zeros(size, dtype=dtype, device=device)
    return torch.frombuffer(mmap(-1, math.prod(size) * dtype.itemsize), dtype=dtype).view(size)


class KVPool:
    """The cached keys and values of every layer, in blocks of 16 positions; place = block * 16 + offset.

    For the kernels a block of keys has the head's width first, (K, E, 16) or in bfloat16 (K, E/2, 16, 2); otherwise
    both are (places, K, E).
    """

    def __init__(
        self,
        layers: int,
        blocks: int,
        kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device | str,
        block: int = BLOCK,
        native: bool = True,
    ) -> None:
        self.block, self.kv_heads, self.head_dim = block, kv_heads, head_dim
        size = (layers, blocks * block, kv_heads, head_dim)
        self.k = _untouched(size, dtype, torch.device(device))
        self.v = _untouched(size, dtype, torch.device(device))
        self.native = native and block == BLOCK and head_dim % 2 == 0 and usable(self.k)
        bytes_a_layer = self.k[0].numel() * self.k.element_size()
        self._addresses = [
            (self.k.data_ptr() + layer * bytes_a_layer, self.v.data_ptr() + layer * bytes_a_layer)
            for layer in range(layers)
        ]

    def write(self, layer: int, k_NKE: Tensor, v_NKE: Tensor, places_N: Tensor) -> None:
        """Put rows into their places, each its own (int64)."""
        if not self.native:
            self.k[layer, places_N], self.v[layer, places_N] = k_NKE, v_NKE
            return
        kernels = library()
        assert kernels is not None
        k_NKE, v_NKE = _row_contiguous(k_NKE), _row_contiguous(v_NKE)
        kernels.kv_write(
            k_NKE.dtype == torch.bfloat16, *self._addresses[layer], self.kv_heads, self.head_dim, len(places_N),
            k_NKE.data_ptr(), k_NKE.stride(0), v_NKE.data_ptr(), v_NKE.stride(0), places_N.data_ptr(),
        )  # fmt: skip

    def copy_block(self, source: int, target: int) -> None:
        """Copy one block over all layers: a partly filled block that somebody else goes on writing."""
        b = self.block
        for cache in (self.k, self.v):
            cache[:, target * b : (target + 1) * b] = cache[:, source * b : (source + 1) * b]

    def pointers(self, layer: int) -> tuple[int, int]:
        """Addresses of the keys and values of a layer."""
        return self._addresses[layer]


@dataclass(frozen=True, eq=False)
class PagedRows:
    """Rows [row_bounds[b], row_bounds[b+1]) are sequence b's, from position first_positions[b] on.

    block_tables (B, blocks) leads from its positions to the pool. A row attends the keys up to its own position, which
    must have been written.
    """

    row_bounds: np.ndarray
    block_tables: np.ndarray
    first_positions: np.ndarray

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        arrays = (self.row_bounds, self.block_tables, self.first_positions)
        bounds, tables, first = (np.ascontiguousarray(a, np.int32) for a in arrays)
        return bounds, tables, first

    @cached_property
    def pointers(self) -> tuple[int, int, int, int, int]:
        """The number of sequences; addresses of bounds and tables, the tables' width, address of first positions."""
        bounds, tables, first = self._arrays
        return len(first), bounds.ctypes.data, tables.ctypes.data, tables.shape[1], first.ctypes.data


def paged_attention(q_NHE: Tensor, pool: KVPool, layer: int, rows: PagedRows, scale: float) -> Tensor:
    """The output (N, H, E) of every row over its sequence's keys in the pool."""
    if not pool.native:
        return reference.paged(
            q_NHE, pool.k[layer], pool.v[layer], np.asarray(rows.row_bounds), np.asarray(rows.block_tables),
            np.asarray(rows.first_positions), scale, pool.block,
        )  # fmt: skip
    kernels = library()
    assert kernels is not None
    q_NHE = _row_contiguous(q_NHE)
    out = torch.empty(q_NHE.shape, dtype=q_NHE.dtype)
    kernels.paged_attention(
        q_NHE.dtype == torch.bfloat16, q_NHE.data_ptr(), q_NHE.stride(0), *pool.pointers(layer), q_NHE.shape[1],
        pool.kv_heads, pool.head_dim, scale, *rows.pointers, out.data_ptr(),
    )  # fmt: skip
    return out


@dataclass(frozen=True, eq=False)
class PackedSequences:
    """Which rows of a training pack attend to which.

    Sequence s has the rows key_rows[key_bounds[s] : key_bounds[s + 1]], in the order of their positions; the last
    query_counts[s] of them are its own queries, those before belong to sequences that it shares a prefix with. Every
    row is the query of at most one sequence. Group g is sequences [group_bounds[g], group_bounds[g + 1]); rows are
    shared within a group only, and a group's gradients do not depend on the others.
    """

    key_rows: np.ndarray
    key_bounds: np.ndarray
    query_counts: np.ndarray
    group_bounds: np.ndarray

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        arrays = (self.group_bounds, self.key_bounds, self.key_rows, self.query_counts)
        return tuple(np.ascontiguousarray(a, np.int32) for a in arrays)

    @cached_property
    def pointers(self) -> tuple[int, ...]:
        """The number of groups; addresses of group bounds, key bounds, key rows and query counts."""
        return len(self.group_bounds) - 1, *(a.ctypes.data for a in self._arrays)


def packed_attention(
    q_NHE: Tensor, k_NKE: Tensor, v_NKE: Tensor, packed: PackedSequences, scale: float, native: bool = True
) -> Tensor:
    """The output (N, H, E) of every row over its sequence's keys in the pack; the bits are those of paged_attention.

    Gradients of rows that sequences share are summed in the order of the sequences, in float32.
    """
    if not (native and usable(q_NHE)):
        rows = np.split(np.asarray(packed.key_rows), np.asarray(packed.key_bounds)[1:-1])
        return reference.packed(q_NHE, k_NKE, v_NKE, rows, np.asarray(packed.query_counts).tolist(), scale)
    if torch.is_grad_enabled() and (q_NHE.requires_grad or k_NKE.requires_grad or v_NKE.requires_grad):
        return _PackedAttention.apply(q_NHE, k_NKE, v_NKE, packed, scale)
    return _packed_forward(q_NHE, k_NKE, v_NKE, packed, scale)[0]


def _row_contiguous(x: Tensor) -> Tensor:
    """A row's heads must lie side by side; rows may be apart."""
    return x if x.stride(2) == 1 and x.stride(1) == x.shape[2] else x.contiguous()


def _qkv(q: Tensor, k: Tensor, v: Tensor) -> tuple[int, ...]:
    return q.data_ptr(), q.stride(0), k.data_ptr(), k.stride(0), v.data_ptr(), v.stride(0)


def _packed_forward(
    q: Tensor, k: Tensor, v: Tensor, packed: PackedSequences, scale: float
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
    """The output, the log of each softmax's sum (N, H), and the tensors as they were read."""
    kernels = library()
    assert kernels is not None
    q, k, v = _row_contiguous(q), _row_contiguous(k), _row_contiguous(v)
    out = torch.zeros(q.shape, dtype=q.dtype)
    log_sum = torch.zeros(q.shape[:2])
    kernels.packed_forward(
        q.dtype == torch.bfloat16, *_qkv(q, k, v), q.shape[1], k.shape[1], q.shape[2], scale,
        *packed.pointers, out.data_ptr(), log_sum.data_ptr(),
    )  # fmt: skip
    return out, log_sum, (q, k, v)


class _PackedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, packed: PackedSequences, scale: float) -> Tensor:
        out, log_sum, qkv = _packed_forward(q, k, v, packed, scale)
        ctx.save_for_backward(*qkv, out, log_sum)
        ctx.rest = (packed, scale)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        q, k, v, out, log_sum = ctx.saved_tensors
        packed, scale = ctx.rest
        kernels = library()
        assert kernels is not None
        d_out = grads[0].contiguous()
        dq = torch.zeros(q.shape, dtype=q.dtype)
        dk, dv = torch.zeros(k.shape), torch.zeros(v.shape)
        kernels.packed_backward(
            q.dtype == torch.bfloat16, *_qkv(q, k, v), out.data_ptr(), d_out.data_ptr(), q.shape[1], k.shape[1],
            q.shape[2], scale, *packed.pointers, log_sum.data_ptr(), dq.data_ptr(), dk.data_ptr(), dv.data_ptr(),
        )  # fmt: skip
        return dq, dk.to(k.dtype), dv.to(v.dtype), None, None
