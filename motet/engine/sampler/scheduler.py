"""Which tokens run next: policy only, no tensors.

A request's prompt is run once, by its *lead*; then its samples, the *members*, are born, sharing the lead's blocks.
A step runs the one next token of living members, and what the row budget lets in of prompts. The ledger says whose
requests come first, to begin and in a step; the others join up to the rows that the policy allows. A member is born
only when all blocks that it may ever need are promised to it, so that nobody is thrown out in the middle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from motet.engine.adapters.store import AdapterStore
from motet.engine.sampler.blocks import BLOCK, BlockTable, chain
from motet.engine.sampler.sequence import BlockCopy, Chunk, Group, Sequence, StepPlan
from motet.engine.turns.ledger import Ledger
from motet.errors import BadRequest, Busy, EngineFault

COMPANY = 32  # rows of others that join a step which somebody waits for: it costs little more than without them
KEPT_FREE = 8  # one in so many blocks is for answers, once there was one


def blocks_for(tokens: int) -> int:
    """How many blocks hold that many tokens."""
    return -(-tokens // BLOCK)


class Scheduler:
    """Admits groups, hands out blocks, and says which chunks make the next step."""

    def __init__(
        self,
        table: BlockTable,
        store: AdapterStore,
        ledger: Ledger,
        max_prompt_rows: int,
        max_waiting: int,
        mixed: bool = True,
    ) -> None:
        self._table = table
        self._store = store
        self._ledger = ledger
        self._max_prompt_rows = max_prompt_rows  # in one step
        self._max_waiting = max_waiting
        self._mixed = mixed  # one step holds the sequences of every version; off in benchmarks only
        self._waiting: deque[Group] = deque()
        self._active: list[Group] = []
        self._promised = 0  # blocks promised to leads and members
        self._kept_free = 0  # blocks that only answers may be promised

    def add(self, group: Group) -> None:
        """File a request. Busy: the queue is full. BadRequest: it can never fit."""
        need = self._lead_blocks(group) + self._member_blocks(group)
        if need > self._table.blocks:
            raise BadRequest(
                f"the request may need {need * BLOCK} cached tokens and the cache holds {self._table.blocks * BLOCK}: "
                "lower max_tokens, or start the engine with a larger kv_cache"
            )
        if len(self._waiting) >= self._max_waiting:
            raise Busy(f"{len(self._waiting)} sampling requests are waiting already: send this one again later")
        group.unborn = group.num_samples
        group.digests = chain(group.owner, group.prompt[:-1])
        group.account = self._ledger.begin(group.payer, "sampling")
        if group.account.serving:
            self._kept_free = self._table.blocks // KEPT_FREE
        self._waiting.append(group)

    def idle(self) -> bool:
        return not self._waiting and not self._active

    def sizes(self) -> dict[str, float]:
        """Gauges: requests waiting and active, living sequences, blocks."""
        return {
            "sample_requests_waiting": len(self._waiting),
            "sample_requests_active": len(self._active),
            "sequences": sum(len(group.living) for group in self._active),
            "kv_blocks": self._table.blocks,
            "kv_blocks_promised": self._promised,
            "kv_blocks_idle": self._table.idle(),
        }

    def plan(self) -> StepPlan:
        """The next step; without chunks where nothing can run."""
        self._drop_hopeless()
        self._admit()
        self._active = self._in_turn(self._active) if self._mixed else self._active
        copies = [copy for group in self._active for copy in self._give_birth(group)]
        able = [group for group in self._active if group.living or self._prompt_left(group)]
        groups = able if self._mixed else self._of_one_version(able)
        chunks = [*self._next_tokens(groups), *self._prompts(groups)]
        for chunk in chunks:
            self._take_blocks(chunk)
        return StepPlan(copies, chunks)

    def _in_turn(self, groups: Iterable[Group]) -> list[Group]:
        """Whose turn it is first; those of one account in the order that they had."""
        places = {account: i for i, account in enumerate(self._ledger.order({g.account for g in groups}, "sampling"))}
        return sorted(groups, key=lambda group: places[group.account])

    def _next_tokens(self, groups: list[Group]) -> list[Chunk]:
        """One row for each member: all of whoever comes first, and of others as long as the step is not full."""
        chunks: list[Chunk] = []
        for group in groups:
            room = self._company(groups) - len(chunks)
            if group.account is groups[0].account:
                room = len(group.living)
            chunks += [Chunk(member, len(member.tokens) - 1, 1) for member in group.living[: max(room, 0)]]
        return chunks

    def _prompts(self, groups: list[Group]) -> list[Chunk]:
        """Pieces of prompts, up to the row budget; of others than the first no more than the policy lets in."""
        chunks: list[Chunk] = []
        taken = 0
        for group in groups:
            most = self._max_prompt_rows
            if group.account is not groups[0].account:
                most = min(most, self._company(groups))
            count = min(most - taken, self._prompt_left(group))
            if count > 0 and group.lead is not None:
                chunks.append(Chunk(group.lead, group.lead.cached, count))
                taken += count
        return chunks

    def _company(self, groups: list[Group]) -> int:
        """Up to how many rows others join whoever comes first."""
        rows = self._ledger.policy.step_rows
        return min(rows, COMPANY) if groups[0].account.serving else rows

    def advance(self, chunk: Chunk) -> None:
        """The rows of a chunk have been run: their keys stand, and full blocks can be found by others."""
        sequence = chunk.sequence
        sequence.cached = chunk.start + chunk.count
        if sequence.cached // BLOCK == sequence.remembered:
            return
        owner, whole = sequence.group.owner, np.asarray(sequence.tokens[: sequence.cached])
        for digest in chain(owner, whole, sequence.remembered, sequence.digest):
            self._table.remember(owner, sequence.blocks[sequence.remembered], digest)
            sequence.digest = digest
            sequence.remembered += 1

    def finish(self, member: Sequence) -> None:
        """A sample has ended: its blocks go back, and the request with its last one."""
        group = member.group
        group.living.remove(member)
        self._release(member)
        self._promised -= self._member_blocks(group)
        if not group.living and group.unborn == 0:
            self._end(group)

    def forget_owner(self, owner: str) -> None:
        """A version is gone; so are its prefixes."""
        self._table.forget_owner(owner)

    def _of_one_version(self, able: list[Group]) -> list[Group]:
        """The groups of the version whose turn it is, of those that have something to run: versions take turns."""
        chosen = [group for group in able if group.owner == able[0].owner]
        self._active = [group for group in self._active if group not in chosen] + chosen
        return chosen

    def _prompt_left(self, group: Group) -> int:
        """Tokens of the prompt that its lead has yet to run."""
        return 0 if group.lead is None else len(group.prompt) - 1 - group.lead.cached

    # -- admission ---------------------------------------------------------------------------------------------

    def _lead_blocks(self, group: Group) -> int:
        return blocks_for(len(group.prompt) - 1)

    def _member_blocks(self, group: Group) -> int:
        """What a member may take beyond the full blocks that it shares with the lead."""
        return blocks_for(len(group.prompt) + group.max_tokens) - (len(group.prompt) - 1) // BLOCK

    def _fits(self, blocks: int, kept_free: int = 0) -> bool:
        return self._promised + blocks <= self._table.blocks - kept_free

    def _may_enter(self, group: Group) -> bool:
        """Is there room for its prompt and a sample? What is kept free stays so, unless nothing less would do."""
        blocks = self._lead_blocks(group) + self._member_blocks(group)
        small = blocks <= self._table.blocks - self._kept_free
        return self._fits(blocks, self._kept_free if small and not group.account.serving else 0)

    def _admit(self) -> None:
        """Begin what can begin, in the order of turns; a request that waits for space holds back those behind it."""
        begun = {d for group in self._active if group.lead is not None for d in group.digests}
        held: list[Group] = []
        self._waiting = deque(self._in_turn(self._waiting))
        while self._waiting and self._may_enter(self._waiting[0]):
            group = self._waiting.popleft()
            try:
                may_begin = self._may_begin(group, begun)
            except EngineFault as fault:  # its version was lost: it fails alone
                group.fault = fault
                self._leave(group)
                continue
            if may_begin:
                begun.update(group.digests)
                self._begin(group)
            else:
                held.append(group)
        self._waiting.extendleft(reversed(held))

    def _may_begin(self, group: Group, begun: set[bytes]) -> bool:
        if group.version is not None and not self._store.version_ready(group.version):
            return False
        unknown = next((d for d in group.digests if not self._table.known(d)), None)
        return unknown not in begun  # else somebody is computing that very prefix now: wait and share it

    def _begin(self, group: Group) -> None:
        lead = group.lead = Sequence(group, -1, group.prompt.tolist())
        self._promised += self._lead_blocks(group)
        lead.blocks = self._table.match(group.digests[: (group.report.first - 1) // BLOCK])  # what is told must be run
        lead.remembered = len(lead.blocks)
        lead.digest = group.digests[lead.remembered - 1] if lead.blocks else b""
        lead.cached = group.cache_hit = lead.remembered * BLOCK
        self._active.append(group)

    # -- births, blocks, ends ----------------------------------------------------------------------------------

    def _give_birth(self, group: Group) -> list[BlockCopy]:
        """Members whose prompt stands and whose blocks can be promised; the lead goes with the last of them."""
        lead, copies = group.lead, list[BlockCopy]()
        if lead is None or self._prompt_left(group) > 0:
            return copies
        while group.unborn > 0 and self._fits(self._member_blocks(group), self._kept_from(group)):
            member = Sequence(group, group.num_samples - group.unborn, list(lead.tokens), lead.cached)
            group.unborn -= 1
            self._promised += self._member_blocks(group)
            group.living.append(member)
            copies += self._share_prompt(lead, member)
        if group.unborn == 0:
            group.lead = None
            self._release(lead)  # its full blocks live on in the members, so their promise stays until the end
        return copies

    def _kept_from(self, group: Group) -> int:
        """Blocks that it leaves to answers: all its samples but one, so that one can always be drawn."""
        return self._kept_free if group.living and not group.account.serving else 0

    def _share_prompt(self, lead: Sequence, member: Sequence) -> list[BlockCopy]:
        """Full blocks are shared; the one that the member will write on is copied."""
        full = lead.cached // BLOCK
        member.blocks, member.remembered, member.digest = lead.blocks[:full], full, lead.digest
        for block in member.blocks:
            self._table.share(block)
        if lead.cached % BLOCK == 0:
            return []
        member.blocks.append(self._table.take())
        return [BlockCopy(lead.blocks[full], member.blocks[-1])]

    def _take_blocks(self, chunk: Chunk) -> None:
        blocks = chunk.sequence.blocks
        while len(blocks) < blocks_for(chunk.start + chunk.count):
            blocks.append(self._table.take())

    def _release(self, sequence: Sequence) -> None:
        for block in sequence.blocks:
            self._table.let_go(block)
        sequence.blocks = []

    def _drop_hopeless(self) -> None:
        """Requests that were taken back, or that cannot go on."""
        for group in [g for g in self._waiting if g.cancelled]:
            self._waiting.remove(group)
            self._leave(group)
        for group in [g for g in self._active if g.cancelled or g.fault is not None]:
            if group.lead is not None:
                self._release(group.lead)
            for member in group.living:
                self._release(member)
                self._promised -= self._member_blocks(group)
            group.living, group.lead, group.unborn = [], None, 0
            self._end(group)

    def _end(self, group: Group) -> None:
        self._active.remove(group)
        self._promised -= self._lead_blocks(group)
        self._leave(group)

    def _leave(self, group: Group) -> None:
        self._ledger.end(group.account, "sampling")
        group.on_done(group)
