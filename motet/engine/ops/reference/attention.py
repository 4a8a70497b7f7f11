"""Attention one query at a time: over its own keys, in blocks of 64, so that its bits do not depend on neighbours."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

KEYS = 64  # the padded number of keys is a multiple of it


def one_query(q_HE: Tensor, k_TKE: Tensor, v_TKE: Tensor, scale: float) -> Tensor:
    """The output (H, E), float32, of one query over all the given keys; H query heads share K key heads."""
    keys, kv_heads, _ = k_TKE.shape
    pad = (0, 0, 0, 0, 0, -keys % KEYS)
    k = torch.nn.functional.pad(k_TKE.float(), pad).permute(1, 2, 0)
    v = torch.nn.functional.pad(v_TKE.float(), pad).permute(1, 0, 2)
    q = q_HE.float().view(kv_heads, -1, q_HE.shape[1])
    scores = (q @ k) * scale
    scores[:, :, keys:] = -torch.inf
    return (torch.softmax(scores, -1) @ v).reshape(q_HE.shape)


def paged(
    q_NHE: Tensor,
    k_PKE: Tensor,
    v_PKE: Tensor,
    bounds: np.ndarray,
    tables: np.ndarray,
    first: np.ndarray,
    scale: float,
    block: int,
) -> Tensor:
    """Rows of several sequences over a cache (places, K, E) that their block tables lead to."""
    outputs = [torch.zeros_like(q_NHE[:0])]
    for b, (start, stop) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        position = np.arange(int(first[b]) + stop - start)
        places = torch.from_numpy(tables[b, position // block].astype(np.int64) * block + position % block)
        k, v = k_PKE[places.to(k_PKE.device)], v_PKE[places.to(k_PKE.device)]
        for row in range(start, stop):
            keys = int(first[b]) + row - start + 1
            outputs.append(one_query(q_NHE[row], k[:keys], v[:keys], scale).to(q_NHE.dtype)[None])
    return torch.cat(outputs)


def packed(
    q_NHE: Tensor, k_NKE: Tensor, v_NKE: Tensor, sequences: list[np.ndarray], counts: list[int], scale: float
) -> Tensor:
    """Every sequence's last `count` rows over its rows up to themselves; autograd finds the way back."""
    outputs: list[Tensor | None] = [None] * q_NHE.shape[0]
    q, k_all, v_all = q_NHE.float(), k_NKE.float(), v_NKE.float()  # gradients are summed in float32
    for rows, count in zip(sequences, counts, strict=True):
        index = torch.from_numpy(rows.astype(np.int64)).to(q_NHE.device)
        k, v = k_all[index], v_all[index]
        for position in range(len(rows) - count, len(rows)):
            row = int(rows[position])
            outputs[row] = one_query(q[row], k[: position + 1], v[: position + 1], scale).to(q_NHE.dtype)
    return torch.stack([torch.zeros_like(q_NHE[0]) if out is None else out for out in outputs])
