"""The ledger of device time: who has had how much, and whose turn it is.

Weighted fair shares are start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996) in two levels, shares and the runs
of each (Goyal, Guo, Vin, OSDI 1996). It suits work whose cost is known only once it is done: a claimant's tag grows by
its seconds divided by its priority, the lowest tag goes first, and whoever comes back from idling is lifted to the
lowest tag at work. Two lanes and the service's calls meet here, so every method takes the lock; none takes another.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterable

from motet.engine.turns.accounts import Account, Claimant, Share
from motet.engine.turns.policies import Policy, Rank
from motet.engine.turns.serving import ServingFirst
from motet.engine.types import Claim, Lane, Payer

OWED = 0.25  # seconds of device time that whoever comes back from idling may be behind its peers
SAVED = 10.0  # and that one who could not use its part, though at work, may be behind the peer that had most
LEAST_BUDGET = 0.05  # of either lane


class Ledger:
    """Accounts, opened and closed with their runs; `policy` reads them."""

    def __init__(
        self,
        policy: Policy,
        longest_wait: float,
        now: Callable[[], float] = time.monotonic,
        serving_part: float = 0.0,
    ) -> None:
        self.policy = policy
        self._serving = ServingFirst(serving_part)
        self._longest_wait = longest_wait  # seconds without a turn after which one comes before everybody
        self._now = now
        self._lock = threading.Lock()
        self._runs: dict[str, Account] = {}
        self._shares: dict[str | None, Share] = {}
        self._loose: dict[str | None, Account] = {}  # of what a share samples without a run of its own
        self._served: dict[str | None, Account] = {}  # of what it serves
        self._numbers = itertools.count(1)

    def open(self, run: str, claim: Claim) -> None:
        """A run exists. The priority of its share is the one told last."""
        with self._lock:
            account = self._runs.get(run) or self._new_run(run)
            account.standing, account.priority = True, claim.priority
            self._move(account, self._share(claim.share))
            account.share.priority = claim.share_priority

    def close(self, run: str) -> None:
        """A run is gone; its account goes with its last request."""
        with self._lock:
            if (account := self._runs.get(run)) is not None:
                account.standing = False
                self._forget_if_over(account)

    def begin(self, payer: Payer, lane: Lane) -> Account:
        """A request is on its way; the account is what `end` and `charge` want."""
        with self._lock:
            account = self._account(payer)
            if account.open[lane] == 0:
                account.served[lane] = self._now()
            account.open[lane] += 1
            self._serving.waiting += account.serving
            self._enter(account, 1)
            return account

    def end(self, account: Account, lane: Lane) -> None:
        """A request is over."""
        with self._lock:
            account.open[lane] -= 1
            self._serving.waiting -= account.serving
            self._leave(account)

    def charge(self, account: Account, lane: Lane, seconds: float) -> None:
        """A piece of work has been done: device time on one lane."""
        with self._lock:
            self._serving.charge(lane, seconds, account.serving)
            account.seconds[lane] += seconds
            account.served[lane] = self._now()
            account.pay(seconds)
            account.share.pay(seconds)
            _limit_savings(account.share.accounts, account)
            _limit_savings(self._shares.values(), account.share)

    # -- what the policy says ----------------------------------------------------------------------------------

    def order(self, accounts: Iterable[Account], lane: Lane) -> list[Account]:
        """Whose turn it is: who has waited for too long, then answers within their part, then as the policy says."""
        with self._lock:
            oldest, served = self._now() - self._longest_wait, self._serving.first

            def rank(account: Account) -> tuple[bool, bool, Rank, int]:
                late = account.served[lane] < oldest
                place = (account.served[lane],) if late else self.policy.rank(account, lane)
                return not late, not (served and account.serving), place, account.number

            return sorted(set(accounts), key=rank)

    def serving_first(self) -> bool:
        """Do answers that somebody waits for come before everything else now?"""
        with self._lock:
            return self._serving.first

    def budget(self, lane: Lane) -> float:
        """The part of device time, 0 to 1, that a lane is due while both want it."""
        with self._lock:
            working = [a for a in (*self._runs.values(), *self._loose.values(), *self._served.values()) if a.work]
            parts: dict[Lane, float] = {
                "sampling": self.policy.budget("sampling", working),
                "training": self.policy.budget("training", working),
            }
        total = sum(parts.values())
        part = parts[lane] / total if total else 0.5
        return min(max(part, LEAST_BUDGET), 1 - LEAST_BUDGET)

    def seconds(self) -> dict[str, float]:
        """Device time of every run that exists: `training_seconds:RUN` and `sampling_seconds:RUN`."""
        with self._lock:
            standing = [account for account in self._runs.values() if account.standing]
            return {f"{lane}_seconds:{a.name}": had for a in standing for lane, had in a.seconds.items()}

    def serving_seconds(self) -> float:
        """Device time of all answers that somebody waited for."""
        with self._lock:
            return self._serving.seconds

    def accounts(self) -> int:
        """How many there are: those of runs that exist, and those with work on its way."""
        with self._lock:
            return len(self._runs) + len(self._loose) + len(self._served)

    # -- accounts ----------------------------------------------------------------------------------------------

    def _account(self, payer: Payer) -> Account:
        if payer.serving:
            return self._served.get(payer.share) or self._new_loose(payer.share, self._served, serving=True)
        if payer.run is not None and (payer.run in self._runs or payer.share is None):
            return self._runs.get(payer.run) or self._new_run(payer.run)
        return self._loose.get(payer.share) or self._new_loose(payer.share, self._loose)

    def _new_run(self, run: str) -> Account:
        account = self._runs[run] = Account(name=run, number=next(self._numbers), share=self._share(None))
        account.share.accounts.add(account)
        return account

    def _new_loose(self, share: str | None, among: dict[str | None, Account], serving: bool = False) -> Account:
        account = Account(number=next(self._numbers), share=self._share(share), serving=serving)
        among[share] = account
        account.share.accounts.add(account)
        return account

    def _share(self, name: str | None) -> Share:
        if name not in self._shares:
            self._shares[name] = Share(name=name)
        return self._shares[name]

    def _move(self, account: Account, share: Share) -> None:
        """To the share that its run turned out to be in; what it had so far stays with the old one."""
        if share is account.share:
            return
        old, work = account.share, account.work
        old.accounts.discard(account)
        old.work -= work
        self._forget_share_if_over(old)
        account.share, account.work = share, 0
        share.accounts.add(account)
        self._enter(account, work)

    def _enter(self, account: Account, work: int) -> None:
        """So many requests more; one that had none is lifted to where its peers are."""
        for claimant, peers in ((account.share, self._shares.values()), (account, account.share.accounts)):
            if work and not claimant.work:
                claimant.tag = max(claimant.tag, _present(peers) - OWED)
            claimant.work += work

    def _leave(self, account: Account) -> None:
        account.work -= 1
        account.share.work -= 1
        self._forget_if_over(account)

    def _forget_if_over(self, account: Account) -> None:
        if account.standing or account.work:
            return
        account.share.accounts.discard(account)
        loose = self._served if account.serving else self._loose
        self._runs.pop(account.name, None) if account.name else loose.pop(account.share.name, None)
        self._forget_share_if_over(account.share)

    def _forget_share_if_over(self, share: Share) -> None:
        if not share.accounts:
            self._shares.pop(share.name, None)


def _present(peers: Collection[Claimant]) -> float:
    """Virtual time among peers: the lowest tag at work, or where nobody is the highest that anyone reached."""
    return min((peer.tag for peer in peers if peer.work), default=max((peer.tag for peer in peers), default=0.0))


def _limit_savings(peers: Collection[Claimant], paid: Claimant) -> None:
    """Whoever is at work and could not use its part, since it asks for little, does not save it up without end."""
    for peer in peers:
        if peer.work:
            peer.tag = max(peer.tag, paid.tag - SAVED)
