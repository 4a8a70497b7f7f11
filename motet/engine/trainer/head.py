"""From the last hidden rows of a piece to its log-probabilities, its loss, and the gradient of those rows.

Logits exist for HEAD_ROWS rows at a time. A target's loss depends on its own log-probability alone, except for the
losses that must see a whole datum: those take a second round over the logits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motet.engine.models.decoder import Decoder
from motet.engine.ops.linear import linear_backward
from motet.engine.ops.logprobs import log_normalizer, logits_gradient_
from motet.engine.ops.lora import AdapterTensors, LoraBatch
from motet.engine.trainer.losses import LOSSES, LossValue, make_terms
from motet.engine.trainer.packing import Piece
from motet.engine.types import FloatArray, Loss

HEAD_ROWS = 128


@dataclass(frozen=True, eq=False)
class PieceResult:
    """What a piece gives: log-probabilities a datum, its loss, and |p - q| where there is an advantage."""

    logprobs: list[FloatArray]
    loss: float
    targets: int  # with a gradient
    mismatch: NDArray[np.float64]


class Head:
    """One piece at the output of one pass. `hidden` is (rows, D); `gradient`, of its shape, is there with backward."""

    def __init__(self, decoder: Decoder, hidden_ND: Tensor, adapter: AdapterTensors, piece: Piece, loss: Loss) -> None:
        self._decoder = decoder
        self._hidden = hidden_ND
        self._adapter = adapter
        self._piece = piece
        self._loss = loss
        self._rule = LOSSES[loss.name]
        repeats = [datum.targets.size // len(datum.tokens) for datum in piece.data]
        self._rows = np.concatenate([np.repeat(p, k) for p, k in zip(piece.paths, repeats, strict=True)])
        self._targets = np.concatenate([datum.targets.reshape(-1) for datum in piece.data]).astype(np.int64)
        self._terms = make_terms(piece.data, loss)
        self._p = np.zeros(len(self._targets))
        self._value = np.zeros(len(self._targets))
        self._gradient = np.zeros(len(self._targets))
        self.gradient = torch.zeros_like(hidden_ND)

    def run(self, backward: bool, breathe: Callable[[], None] = lambda: None) -> PieceResult:
        """Fill in everything, chunk by chunk; `breathe` is called between two of them."""
        whole = self._rule.whole_datum
        for rows in self._chunks():
            breathe()
            self._score(rows, backward=backward and not whole)
        if whole:
            self._note(slice(None), self._rule(self._p, self._terms, self._loss.config))
            for rows in self._chunks() if backward else ():
                breathe()
                self._push_back(rows, self._logits(rows))
        return self._result()

    def _chunks(self) -> Iterator[NDArray[np.int64]]:
        for start in range(0, self._piece.rows, HEAD_ROWS):
            yield np.arange(start, min(start + HEAD_ROWS, self._piece.rows))

    def _lora(self, count: int) -> LoraBatch:
        return LoraBatch((0, count), (self._adapter,))

    def _logits(self, rows: NDArray[np.int64]) -> Tensor:
        return self._decoder.logits(self._hidden[rows[0] : rows[-1] + 1], self._lora(len(rows)))

    def _within(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        return (self._rows >= rows[0]) & (self._rows <= rows[-1])

    def _score(self, rows: NDArray[np.int64], backward: bool) -> None:
        logits = self._logits(rows)
        here = self._within(rows)
        local = torch.from_numpy(self._rows[here] - rows[0]).long().to(logits.device)
        targets = torch.from_numpy(self._targets[here]).to(logits.device)
        log_z = log_normalizer(logits)
        self._p[here] = (logits[local, targets] - log_z[local]).cpu().numpy()
        if not self._rule.whole_datum:
            self._note(here, self._rule(self._p[here], self._terms.take(here), self._loss.config))
        if backward:
            self._push_back(rows, logits, log_z)

    def _note(self, here: NDArray[np.bool_] | slice, value: LossValue) -> None:
        self._value[here] = value.value
        self._gradient[here] = value.gradient

    def _push_back(self, rows: NDArray[np.int64], logits: Tensor, log_z: Tensor | None = None) -> None:
        """From the derivative by the log-probabilities to that by the hidden rows, where it is not zero."""
        moving = np.flatnonzero(self._within(rows) & (self._gradient != 0))
        if len(moving) == 0:
            return
        # Targets that share a row stand side by side in it, in the order of their datums.
        order = moving[np.argsort(self._rows[moving], kind="stable")]
        chosen, first, counts = np.unique(self._rows[order], return_index=True, return_counts=True)
        line = np.repeat(np.arange(len(chosen)), counts)
        place = np.arange(len(order)) - np.repeat(first, counts)
        targets = np.zeros((len(chosen), int(counts.max())), np.int64)
        gradient = np.zeros(targets.shape, np.float32)
        targets[line, place], gradient[line, place] = self._targets[order], self._gradient[order]
        log_z = log_normalizer(logits) if log_z is None else log_z
        if len(chosen) < len(rows):  # else they are overwritten where they stand: a chunk is 25 MB
            index = torch.from_numpy((chosen - rows[0]).astype(np.int64)).to(logits.device)
            logits, log_z = logits[index], log_z[index]
        d_logits = logits_gradient_(
            logits,
            log_z,
            torch.from_numpy(targets).to(logits.device),
            torch.from_numpy(gradient).to(logits.device),
        )
        where = torch.from_numpy(chosen.astype(np.int64)).to(logits.device)
        head, site = self._decoder.head, self._decoder.head_site
        d_hidden = linear_backward(self._hidden[where], d_logits, head, self._lora(len(chosen)), site)
        assert d_hidden is not None
        self.gradient[where] = d_hidden

    def _result(self) -> PieceResult:
        sizes = np.cumsum([datum.targets.size for datum in self._piece.data])[:-1]
        logprobs = [
            p.reshape(datum.targets.shape).astype(np.float32)
            for p, datum in zip(np.split(self._p, sizes), self._piece.data, strict=True)
        ]
        drift = np.abs(self._p - self._terms.q)[self._terms.advantages != 0]
        return PieceResult(logprobs, float(self._value.sum()), int(np.count_nonzero(self._gradient)), drift)
