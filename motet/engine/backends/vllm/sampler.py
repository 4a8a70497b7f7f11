"""Groups drawn by a vLLM: admitted by whose turn it is, handed over sample by sample, delivered token by token."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import count

from motet.engine.adapters.store import AdapterStore
from motet.engine.backends.vllm.adapters import Adapters
from motet.engine.backends.vllm.drawing import Adapter, Drawer, News, ToDraw, Told, seed_of
from motet.engine.sampler.sequence import Group, Sequence
from motet.engine.sampler.stops import StopFinder
from motet.engine.turns.accounts import Account
from motet.engine.turns.ledger import Ledger
from motet.engine.types import StopReason
from motet.errors import BadRequest, Busy, EngineFault

MOST_LIVE = 256  # samples in vLLM's hands; more wait here, where the ledger says who comes first
LEAST_TEMPERATURE = 0.01  # below, vLLM takes this instead without a word


@dataclass
class VllmCounts:
    """Counters since the start."""

    steps: int = 0
    decoded_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0  # of prompts


@dataclass(eq=False)
class _Live:
    """A group that vLLM has, and the samples of it that are not done."""

    group: Group
    members: dict[str, Sequence] = field(default_factory=dict)


class VllmSampler:
    """See `groups.GroupSampler`."""

    def __init__(
        self, drawer: Drawer, adapters: Adapters, stops: StopFinder, store: AdapterStore, ledger: Ledger, most: int
    ) -> None:
        self.counts = VllmCounts()
        self._drawer = drawer
        self._adapters = adapters
        self._stops = stops
        self._store = store
        self._ledger = ledger
        self._most_waiting = most
        self._waiting: list[Group] = []
        self._live: list[_Live] = []
        self._owners: dict[str, _Live] = {}  # by key of a sample
        self._numbers = count(1)

    def add(self, group: Group) -> None:
        """File a request. Busy: the queue is full. BadRequest: vLLM cannot draw it, or cannot tell what is asked."""
        _check(group)
        if len(self._waiting) >= self._most_waiting:
            raise Busy(f"{len(self._waiting)} sampling requests are waiting already: send this one again later")
        group.account = self._ledger.begin(group.payer, "sampling")
        self._waiting.append(group)

    def step(self) -> dict[Account, int]:
        """What vLLM has to tell, delivered: the tokens of each account in it, a prompt for one."""
        self._drop_hopeless()
        self._adapters.sweep()
        self._admit()
        rows: dict[Account, int] = {}
        for news in self._drawer.step():
            live = self._owners.get(news.key)
            if live is not None:  # else it was taken back while vLLM was at it
                account = live.group.account
                rows[account] = rows.get(account, 0) + max(len(news.tokens), 1)
                self._deliver(live, news)
        self._drop_hopeless()
        self.counts.steps += bool(rows)
        return rows

    def forget_owner(self, owner: str) -> None:
        """The next step sweeps; its cached prefixes are the first that vLLM gives up, since nobody asks for them."""

    def sizes(self) -> dict[str, float]:
        return {
            "sample_requests_waiting": len(self._waiting),
            "sample_requests_active": len(self._live),
            "sequences": len(self._owners),
            "sample_steps": self.counts.steps,
            "decoded_tokens": self.counts.decoded_tokens,
            "prompt_tokens": self.counts.prompt_tokens,
            "prompt_cache_tokens": self.counts.cached_tokens,
            **self._adapters.sizes(),
            **self._drawer.sizes(),
        }

    def close(self) -> None:
        self._drawer.close()
        self._adapters.close()

    # -- admission ---------------------------------------------------------------------------------------------

    def _admit(self) -> None:
        """Hand over what there is room for and whose version is in memory, in the order of turns."""
        if not self._waiting:
            return
        accounts = self._ledger.order({group.account for group in self._waiting}, "sampling")
        places = {account: place for place, account in enumerate(accounts)}
        for group in sorted(self._waiting, key=lambda group: places[group.account]):
            if self._owners and len(self._owners) + group.num_samples > MOST_LIVE:
                return
            try:
                if group.version is None or self._store.version_ready(group.version):
                    self._begin(group)
                    self._waiting.remove(group)
            except EngineFault as fault:  # its version was lost, or vLLM does not take it: it fails alone
                group.fault = fault
        self._drop_hopeless()

    def _begin(self, group: Group) -> None:
        adapter = None if group.version is None else self._adapters.hold(group.version)
        live = _Live(group)
        self._live.append(live)
        number = next(self._numbers)
        for index in range(group.num_samples):
            sample = _to_draw(group, index, f"{number}-{index}", adapter)
            member = Sequence(group, index, list(sample.prompt))
            live.members[sample.key], self._owners[sample.key] = member, live
            group.living.append(member)
            self._drawer.begin(sample)

    # -- delivery ----------------------------------------------------------------------------------------------

    def _deliver(self, live: _Live, news: News) -> None:
        group, member = live.group, live.members[news.key]
        if news.fault is not None:
            group.fault = news.fault
            return
        for place, told in enumerate(news.prompt, 1):
            group.report.note_told(place, told.logprob, told.top)
        if member.index == 0 and not member.logprobs:
            group.cache_hit = news.cached_tokens
        if not member.logprobs:
            self.counts.prompt_tokens += len(group.prompt)
            self.counts.cached_tokens += news.cached_tokens
        reason: StopReason | None = None
        for told in news.tokens:
            reason = self._append(member, told)
            if reason is not None or group.fault is not None:
                break
        if reason is None and news.ended:
            reason = "length"
        if reason is not None and group.fault is None:
            self._finish(live, news, reason)

    def _append(self, member: Sequence, told: Told) -> StopReason | None:
        group = member.group
        if not math.isfinite(told.logprob):
            group.fault = BadRequest(
                "this version's weights give NaN or infinite log-probabilities: "
                "the run has diverged, go back to an earlier version and lower learning_rate"
            )
        self.counts.decoded_tokens += 1
        member.tokens.append(told.token)
        member.logprobs.append(told.logprob)
        if group.top_sample:
            member.top_tokens.append(told.top.tokens[0][: group.top_sample])
            member.top_logprobs.append(told.top.logprobs[0][: group.top_sample])
        if group.on_part is not None:
            group.on_part(member.newest())
        if told.token in group.stop_tokens or self._stops.found(member, told.token):
            return "stop"
        return "length" if len(member.logprobs) >= group.max_tokens else None

    def _finish(self, live: _Live, news: News, reason: StopReason) -> None:
        member = live.members.pop(news.key)
        del self._owners[news.key]
        live.group.living.remove(member)
        live.group.finished[member.index] = member.result(reason)
        if not news.ended:  # a stop string: vLLM knows nothing of ours
            self._drawer.abort([news.key])
        if not live.members:
            self._end(live)

    # -- ends --------------------------------------------------------------------------------------------------

    def _drop_hopeless(self) -> None:
        """Requests that were taken back, or that cannot go on."""
        for group in [group for group in self._waiting if group.cancelled or group.fault is not None]:
            self._waiting.remove(group)
            self._leave(group)
        for live in [one for one in self._live if one.group.cancelled or one.group.fault is not None]:
            self._drawer.abort(list(live.members))
            for key in live.members:
                del self._owners[key]
            self._end(live)

    def _end(self, live: _Live) -> None:
        self._live.remove(live)
        if live.group.version is not None:
            self._adapters.let_go(live.group.version)
        self._leave(live.group)

    def _leave(self, group: Group) -> None:
        self._ledger.end(group.account, "sampling")
        group.on_done(group)


def _check(group: Group) -> None:
    """BadRequest where vLLM cannot do what our own sampler does."""
    query, params = group.report.query, group.params
    if (query.given is not None and len(query.given.tokens)) or query.draws:
        raise BadRequest('vLLM cannot score given tokens or draw at a prompt\'s places: use sampler = "local" for that')
    if 0 < params.temperature < LEAST_TEMPERATURE:
        raise BadRequest(f"temperature is {params.temperature}: with vLLM choose 0 or at least {LEAST_TEMPERATURE}")


def _to_draw(group: Group, index: int, key: str, adapter: Adapter | None) -> ToDraw:
    """Sample `index` of a group; the first one is asked for what is told of the prompt."""
    params, query = group.params, group.report.query
    scores = index == 0 and (query.logprobs or query.top > 0)
    return ToDraw(
        key=key,
        prompt=group.prompt.tolist(),
        temperature=params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        seed=seed_of(group.seed, index),
        max_tokens=group.max_tokens,
        stop_tokens=tuple(sorted(group.stop_tokens)),
        likeliest=group.top_sample,
        prompt_likeliest=query.top if scores else None,
        adapter=adapter,
    )
