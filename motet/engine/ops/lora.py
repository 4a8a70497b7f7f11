"""Which rows of a batch go through which adapter.

A *site* is one fused projection of the base model that an adapter may change: in layer l `4*l + 0` is qkv,
`+ 1` is o, `+ 2` is gate_up, `+ 3` is down; the last site is the unembedding. A site of P parts (qkv: 3,
gate_up: 2, others: 1) has A (D_in, P*R), the parts' A side by side, and B (R, D_out), the parts' B end to end:
output column c of part p is  y_c += scale * sum_r (x @ A)[p*R + r] * B[r, c].
Both are kept transposed against PEFT's lora_A and lora_B, so that the inner loops run over contiguous memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class SitePlan(NamedTuple):
    """Where one site's A and B lie in an adapter's flat tensor; splits are the parts' D_out."""

    a_start: int
    b_start: int
    d_in: int
    splits: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class AdapterTensors:
    """One adapter as the kernels see it: a flat tensor in the base model's dtype, and a plan.

    `plan[site]` is None where the adapter does not touch the site. `grad` (float32, flat, the same plan) is
    there in a training pass only; a backward adds to it row by row, in the order of the rows, so the sum does
    not depend on how the rows were cut into passes.
    """

    flat: Tensor
    plan: tuple[SitePlan | None, ...]
    rank: int
    scale: float
    grad: Tensor | None = None

    def a(self, site: int, of: Tensor | None = None) -> Tensor | None:
        """A (D_in, P*R) of a site, a view of `of` (default: the weights)."""
        plan = self.plan[site]
        if plan is None:
            return None
        width = len(plan.splits) * self.rank
        flat = self.flat if of is None else of
        return flat[plan.a_start : plan.a_start + plan.d_in * width].view(plan.d_in, width)

    def b(self, site: int, of: Tensor | None = None) -> Tensor | None:
        """B (R, D_out) of a site, a view of `of` (default: the weights)."""
        plan = self.plan[site]
        if plan is None:
            return None
        width = sum(plan.splits)
        flat = self.flat if of is None else of
        return flat[plan.b_start : plan.b_start + self.rank * width].view(self.rank, width)

    @cached_property
    def addresses(self) -> np.ndarray:
        """Machine addresses (sites, 4) of A, B, grad A, grad B, for the native kernels; 0 is absent."""
        out = np.zeros((len(self.plan), 4), np.int64)
        for site, plan in enumerate(self.plan):
            if plan is None:
                continue
            starts = (plan.a_start, plan.b_start)
            out[site, :2] = [self.flat.data_ptr() + s * self.flat.element_size() for s in starts]
            if self.grad is not None:
                out[site, 2:] = [self.grad.data_ptr() + s * self.grad.element_size() for s in starts]
        return out


@dataclass(frozen=True, eq=False)
class LoraBatch:
    """Rows [bounds[i], bounds[i+1]) of the batch go through adapters[i]; None there is the base model alone."""

    bounds: tuple[int, ...]
    adapters: tuple[AdapterTensors | None, ...]

    def segments(self) -> list[tuple[slice, AdapterTensors]]:
        """The rows of each adapter, those of the plain base model left out."""
        pairs = zip(self.bounds, self.bounds[1:], self.adapters, strict=False)
        return [(slice(start, stop), adapter) for start, stop, adapter in pairs if adapter is not None]

    @cached_property
    def table(self) -> np.ndarray:
        """Addresses (sites, segments, 4) of all adapters in the batch; 0 is absent."""
        sites = max((len(a.plan) for a in self.adapters if a is not None), default=0)
        blank = np.zeros((sites, 4), np.int64)
        rows = [blank if a is None else a.addresses for a in self.adapters]
        return np.ascontiguousarray(np.stack(rows, axis=1)) if rows else np.zeros((sites, 0, 4), np.int64)

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bounds, ranks and scales of the segments, as the kernels read them."""
        ranks = [0 if a is None else a.rank for a in self.adapters]
        scales = [0.0 if a is None else a.scale for a in self.adapters]
        return np.asarray(self.bounds, np.int64), np.asarray(ranks, np.int64), np.asarray(scales, np.float32)

    @cached_property
    def _addresses(self) -> tuple[int, int, int, int, int]:
        bounds, ranks, scales = self._arrays
        return self.table.ctypes.data, self.table.shape[0], *(a.ctypes.data for a in (bounds, ranks, scales))

    def at_site(self, site: int) -> tuple[int, int | None, int | None, int | None, int | None]:
        """How many segments, and the addresses of bounds, table, ranks and scales; (0, None, ...) is no adapter."""
        table, sites, bounds, ranks, scales = self._addresses
        if site >= sites:
            return 0, None, None, None, None
        count = len(self.adapters)
        return count, bounds, table + site * count * 4 * 8, ranks, scales


def shrink_expand(x_ND: Tensor, y_NO: Tensor, lora: LoraBatch, site: int) -> Tensor:
    """The reference: y plus every adapter's share, in float32. The native kernel must agree with it."""
    out = y_NO.float()
    for rows, adapter in lora.segments():
        a, b, plan = adapter.a(site), adapter.b(site), adapter.plan[site]
        if a is None or b is None or plan is None:
            continue
        h = (x_ND[rows].float() @ a.float()) * adapter.scale
        parts = zip(h.split(adapter.rank, dim=1), b.float().split(list(plan.splits), dim=1), strict=True)
        out[rows] = out[rows] + torch.cat([h_part @ b_part for h_part, b_part in parts], dim=1)
    return out.to(y_NO.dtype)
