"""The sampling side of a backend: requests checked, their versions held while they are drawn, by whichever sampler."""

from __future__ import annotations

import secrets
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack
from dataclasses import replace
from typing import Protocol

from motet.engine.adapters.run import Version
from motet.engine.adapters.store import AdapterStore
from motet.engine.backends.base import SampleOrder
from motet.engine.sampler.orders import check_prompt, check_query, check_told, group_result
from motet.engine.sampler.prompt import PromptReport
from motet.engine.sampler.sequence import Group
from motet.engine.turns.accounts import Account
from motet.engine.types import BaseInfo, SampleResult


class GroupSampler(Protocol):
    """What draws the samples of groups. It calls `on_done` of a group once: all drawn, at fault, or cancelled."""

    def add(self, group: Group) -> None:
        """File a request. Busy: the queue is full. BadRequest: it can never be drawn here."""
        ...

    def step(self) -> dict[Account, int]: ...

    def forget_owner(self, owner: str) -> None:
        """A version is gone: what was kept for it goes too."""
        ...

    def sizes(self) -> dict[str, float]: ...

    def close(self) -> None: ...


class GroupSampling:
    """See `base.Sampling`; the methods stand in its order."""

    def __init__(self, info: BaseInfo, store: AdapterStore, sampler: GroupSampler) -> None:
        self._info = info
        self._store = store
        self._sampler = sampler
        self._groups: dict[Future[SampleResult], Group] = {}

    def begin(self, order: SampleOrder) -> None:
        info = self._info
        check_prompt(order.prompt, order.params, order.num_samples, info.vocabulary, info.context)
        check_query(order.query, len(order.prompt), info.vocabulary)
        check_told("likeliest", order.top_sample_logprobs)
        with ExitStack() as undo:
            version = None if order.version is None else self._store.acquire(order.version)
            undo.callback(self._let_go, version)
            group = self._group(order, version)
            self._sampler.add(group)
            self._groups[order.done] = group
            undo.pop_all()

    def step(self) -> dict[Account, int]:
        return self._sampler.step()

    def cancel(self, done: Future[SampleResult]) -> None:
        group = self._groups.get(done)
        if group is not None:
            group.cancelled = True

    # anybody --------------------------------------------------------------------------------------------------

    def sizes(self) -> dict[str, float]:
        return self._sampler.sizes()

    def close(self) -> None:
        self._sampler.close()

    def _group(self, order: SampleOrder, version: Version | None) -> Group:
        params, info = order.params, self._info
        room = info.context - len(order.prompt)
        seed = secrets.randbits(63) if params.seed is None else params.seed
        return Group(
            prompt=order.prompt,
            params=params,
            seed=seed,
            num_samples=order.num_samples,
            max_tokens=room if params.max_tokens is None else min(params.max_tokens, room),
            stop_tokens=frozenset(info.end_tokens if params.stop_tokens is None else params.stop_tokens),
            stop_bytes=tuple(stop.encode() for stop in params.stop_strings),
            version=version,
            report=PromptReport(order.query, order.prompt, params.temperature, seed, info.vocabulary),
            top_sample=order.top_sample_logprobs,
            on_done=lambda group: self._sampled(group, order.done),
            payer=replace(order.payer, run=None if version is None else version.run),
            on_part=order.on_part,
        )

    def _sampled(self, group: Group, done: Future[SampleResult]) -> None:
        del self._groups[done]
        self._let_go(group.version)
        if group.cancelled:
            done.cancel()
            return
        try:
            if group.fault is not None:
                done.set_exception(group.fault)
            else:
                done.set_result(group_result(group))
        except InvalidStateError:
            assert done.cancelled()

    def _let_go(self, version: Version | None) -> None:
        if version is not None and self._store.release(version):
            self._sampler.forget_owner(version.key)
