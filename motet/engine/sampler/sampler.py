"""The sampler: plan, run, draw, deliver. Continuous batching over every live sequence of every version."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from motet.engine.models.decoder import Decoder
from motet.engine.ops.logprobs import draw
from motet.engine.sampler.prompt import top_logprobs
from motet.engine.sampler.runner import Rows, Runner
from motet.engine.sampler.scheduler import Scheduler
from motet.engine.sampler.sequence import Group, Sequence
from motet.engine.sampler.stops import StopFinder
from motet.engine.sampler.uniform import uniforms
from motet.engine.turns.accounts import Account
from motet.engine.types import StopReason
from motet.errors import BadRequest

SCORE_ROWS = 128  # logits of at most so many prompt rows exist at a time


@dataclass
class SamplerCounts:
    """Counters since the start."""

    steps: int = 0
    decoded_tokens: int = 0
    prompt_tokens: int = 0


class _Draws(NamedTuple):
    """One row for each member of a step."""

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    uniform: Tensor


class Sampler:
    """Everything that lives is stepped together; a request's numbers depend on nothing but the request."""

    def __init__(
        self, decoder: Decoder, stops: StopFinder, scheduler: Scheduler, blocks: int, breathe: Callable[[], None]
    ) -> None:
        self.counts = SamplerCounts()
        self._scheduler = scheduler
        self._runner = Runner(decoder, blocks, breathe)
        self._stops = stops

    def add(self, group: Group) -> None:
        """File a request. Busy: the queue is full. BadRequest: it can never fit."""
        self._scheduler.add(group)

    def forget_owner(self, owner: str) -> None:
        """A version is gone; so are its prefixes."""
        self._scheduler.forget_owner(owner)

    def sizes(self) -> dict[str, float]:
        """Gauges of the queue and the cache, counters since the start."""
        counts = self.counts
        return {
            **self._scheduler.sizes(),
            "sample_steps": counts.steps,
            "decoded_tokens": counts.decoded_tokens,
            "prompt_tokens": counts.prompt_tokens,
        }

    def close(self) -> None:
        """Nothing lives on without its lane."""

    def step(self) -> dict[Account, int]:
        """One step over whatever has its turn. Gives the rows that each account had in it; none: nothing could run."""
        plan = self._scheduler.plan()
        self._runner.copy(plan.copies)
        if not plan.chunks:
            return {}
        rows = self._runner.run(plan.chunks)
        for chunk in rows.chunks:
            self._scheduler.advance(chunk)
        self._score_prompts(rows)
        self._draw_tokens(rows)
        return self._count(rows)

    # -- what the rows give ------------------------------------------------------------------------------------

    def _draw_tokens(self, rows: Rows) -> None:
        drawing = [i for i, chunk in enumerate(rows.chunks) if chunk.draws]
        if not drawing:
            return
        members = [rows.chunks[i].sequence for i in drawing]
        logits = self._runner.logits(rows, rows.bounds[1:][drawing] - 1)
        how = self._how_to_draw(members, logits)
        self._note_top(members, logits, how.temperature)
        drawn = draw(logits, how.temperature, how.top_k, how.top_p, how.uniform)
        for member, token, logprob in zip(members, drawn.tokens.tolist(), drawn.logprobs.tolist(), strict=True):
            self._append(member, token, logprob)

    def _how_to_draw(self, members: list[Sequence], logits_NV: Tensor) -> _Draws:
        device, vocabulary = logits_NV.device, logits_NV.shape[1]
        params = [member.group.params for member in members]
        numbers = uniforms(
            np.array([member.group.seed & 0xFFFFFFFFFFFFFFFF for member in members], np.uint64),
            np.array([member.index for member in members], np.uint64),
            np.array([len(member.tokens) for member in members], np.uint64),
        )
        return _Draws(
            torch.tensor([p.temperature for p in params], dtype=torch.float32, device=device),
            torch.tensor([min(p.top_k, vocabulary) for p in params], dtype=torch.int64, device=device),
            torch.tensor([p.top_p for p in params], dtype=torch.float32, device=device),
            torch.from_numpy(numbers).to(device),
        )

    def _append(self, member: Sequence, token: int, logprob: float) -> None:
        if not math.isfinite(logprob):
            member.group.fault = BadRequest(
                "this version's weights give NaN or infinite log-probabilities: "
                "the run has diverged, go back to an earlier version and lower learning_rate"
            )
        member.tokens.append(token)
        member.logprobs.append(logprob)
        if member.group.on_part is not None:
            member.group.on_part(member.newest())
        reason = self._stop_reason(member, token)
        if reason is not None:
            member.group.finished[member.index] = member.result(reason)
            self._scheduler.finish(member)

    def _stop_reason(self, member: Sequence, token: int) -> StopReason | None:
        group = member.group
        if token in group.stop_tokens or self._stops.found(member, token):
            return "stop"
        return "length" if len(member.logprobs) >= group.max_tokens else None

    def _note_top(self, members: list[Sequence], logits: Tensor, temperature: Tensor) -> None:
        wanting = [i for i, member in enumerate(members) if member.group.top_sample > 0]
        for i in wanting:
            heat = float(temperature[i]) or 1.0
            top = top_logprobs(logits[i : i + 1] / heat, members[i].group.top_sample)
            members[i].top_tokens.append(top.tokens[0])
            members[i].top_logprobs.append(top.logprobs[0])

    def _score_prompts(self, rows: Rows) -> None:
        for i, chunk in enumerate(rows.chunks):
            if not chunk.scores:
                continue
            report = chunk.sequence.group.report
            for start in range(max(report.first - 1 - chunk.start, 0), chunk.count, SCORE_ROWS):
                offsets = np.arange(start, min(start + SCORE_ROWS, chunk.count))
                report.note(chunk.start + start + 1, self._runner.logits(rows, rows.bounds[i] + offsets))

    def _count(self, rows: Rows) -> dict[Account, int]:
        self.counts.steps += 1
        shares: dict[Account, int] = {}
        for chunk in rows.chunks:
            if chunk.draws:
                self.counts.decoded_tokens += 1
            else:
                self.counts.prompt_tokens += chunk.count
            account = chunk.sequence.group.account
            shares[account] = shares.get(account, 0) + chunk.count
        return shares
