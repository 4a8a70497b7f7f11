"""What a request is told of its prompt: scores of its tokens and of given ones, the likeliest, drawn ones."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from motet.engine.ops.logprobs import log_normalizer
from motet.engine.sampler.uniform import uniforms
from motet.engine.types import IntArray, PromptQuery, PromptScores, TopLogprobs

EMPTY_LOGPROB = -99999.0
FIRST_DRAW = 1 << 32  # draws at a prompt's places have indices that no sample has


def top_logprobs(logits_NV: Tensor, k: int) -> TopLogprobs:
    """The k likeliest tokens of every row, likeliest first; all of them where the vocabulary is smaller."""
    best = torch.topk(logits_NV, min(k, logits_NV.shape[1]), dim=1)
    logprobs = best.values - log_normalizer(logits_NV)[:, None]
    return TopLogprobs(best.indices.int().cpu().numpy(), logprobs.cpu().numpy())


class PromptReport:
    """Filled while the prompt is run. Place i is that of the prompt's token i; place 0 follows nothing."""

    def __init__(self, query: PromptQuery, prompt: IntArray, temperature: float, seed: int, vocabulary: int) -> None:
        places, width = len(prompt), min(query.top, vocabulary)
        self.query, self._prompt, self._temperature, self._seed = query, prompt, temperature, seed
        self._told_from = places - min(query.last or places, places - 1) if query.logprobs or query.top else places
        self._logprobs = np.full(places, np.nan, np.float32)
        self._top = _cells(places, width)
        self._given = np.zeros(0 if query.given is None else len(query.given.tokens), np.float32)
        self._drawn = _cells(places - 1, query.draws)
        self.first = self._first_place()

    def _first_place(self) -> int:
        """The first place that is scored at all; the prompt's length where none is."""
        query, firsts = self.query, [self._told_from]
        if query.given is not None and len(query.given.places) > 0:
            firsts.append(int(query.given.places[0]))
        if query.draws > 0:
            firsts.append(1)
        return min(firsts)

    def note(self, first: int, logits_NV: Tensor) -> None:
        """The places [first, first + N) have these logits. Each place is noted once."""
        end, start = first + len(logits_NV), max(first, self._told_from)
        if start < end:
            self._note_own(start, logits_NV[start - first :])
        if self.query.given is not None:
            self._note_given(first, end, logits_NV)
        if self.query.draws > 0:
            self._note_draws(first, logits_NV)

    def note_told(self, place: int, logprob: float, top: TopLogprobs) -> None:
        """One place as another sampler tells of it: its token's log-probability, and the likeliest (1, top or more)."""
        if place < self._told_from:
            return
        self._logprobs[place] = logprob
        width = self._top.tokens.shape[1]
        self._top.tokens[place], self._top.logprobs[place] = top.tokens[0, :width], top.logprobs[0, :width]

    def result(self) -> PromptScores:
        """All of it, once every place from `first` on was noted."""
        query = self.query
        return PromptScores(
            logprobs=self._logprobs if query.logprobs else None,
            top=self._top if query.top > 0 else None,
            given=None if query.given is None else self._given,
            drawn=self._drawn if query.draws > 0 else None,
        )

    def _note_own(self, start: int, logits: Tensor) -> None:
        places = np.arange(start, start + len(logits))
        if self.query.logprobs:
            self._logprobs[places] = _picked(logits, np.arange(len(places)), self._prompt[places])
        if self.query.top > 0:
            top = top_logprobs(logits, self.query.top)
            self._top.tokens[places], self._top.logprobs[places] = top.tokens, top.logprobs

    def _note_given(self, first: int, end: int, logits: Tensor) -> None:
        given = self.query.given
        assert given is not None
        here = slice(*np.searchsorted(given.places, [first, end]))
        if here.start < here.stop:
            self._given[here] = _picked(logits, given.places[here] - first, given.tokens[here])

    def _note_draws(self, first: int, logits: Tensor) -> None:
        count = self.query.draws
        places = np.arange(first, first + len(logits))
        numbers = uniforms(
            np.array(self._seed & 0xFFFFFFFFFFFFFFFF, np.uint64),
            np.arange(FIRST_DRAW, FIRST_DRAW + count, dtype=np.uint64),
            places[:, None].astype(np.uint64),
        )
        tokens = np.stack([self._draw(row, number) for row, number in zip(logits, numbers, strict=True)])
        self._drawn.tokens[places - 1] = tokens
        flat = _picked(logits, np.repeat(np.arange(len(places)), count), tokens.reshape(-1))
        self._drawn.logprobs[places - 1] = flat.reshape(tokens.shape)

    def _draw(self, logits_V: Tensor, uniform: np.ndarray) -> np.ndarray:
        """As many tokens as there are numbers, from the tempered distribution of one row."""
        if self._temperature <= 0:
            return np.full(len(uniform), int(logits_V.argmax()))
        sums = torch.softmax(logits_V.double() / self._temperature, 0).cumsum(0)
        drawn = torch.searchsorted(sums, torch.from_numpy(uniform).to(sums.device) * sums[-1], right=True)
        return drawn.clamp(max=len(sums) - 1).cpu().numpy()


def _cells(places: int, width: int) -> TopLogprobs:
    """Nothing told yet: every cell empty."""
    return TopLogprobs(np.zeros((places, width), np.int32), np.full((places, width), EMPTY_LOGPROB, np.float32))


def _picked(logits_NV: Tensor, rows: np.ndarray, tokens: IntArray) -> np.ndarray:
    """log-probabilities of tokens, each in its row."""
    row, token = (torch.from_numpy(np.asarray(a, np.int64)).to(logits_NV.device) for a in (rows, tokens))
    return (logits_NV[row, token] - log_normalizer(logits_NV)[row]).cpu().numpy()
