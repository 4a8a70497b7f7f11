"""What the ledger keeps of a run and of a share: the time it had, and its place among its peers. State only."""

from __future__ import annotations

from dataclasses import dataclass, field

from motet.engine.types import Lane


@dataclass(eq=False)
class Claimant:
    """One of several peers who divide device time by priority."""

    priority: float = 1.0
    tag: float = 0.0  # virtual time: seconds had, each divided by the priority of its moment
    work: int = 0  # requests on their way

    def pay(self, seconds: float) -> None:
        self.tag += seconds / self.priority


@dataclass(eq=False)
class Share(Claimant):
    """A group of runs. It divides the device with the other shares; its runs divide what it gets."""

    name: str | None = None
    accounts: set[Account] = field(default_factory=set)


@dataclass(eq=False)
class Account(Claimant):
    """A run; or what a share samples without a run of its own."""

    name: str = ""  # of the run; none without one
    number: int = 0  # in the order of opening
    share: Share = field(default_factory=Share)
    serving: bool = False  # answers that somebody waits for
    standing: bool = False  # its run exists; others go with their last request
    open: dict[Lane, int] = field(default_factory=lambda: {"sampling": 0, "training": 0})  # requests on their way
    seconds: dict[Lane, float] = field(default_factory=lambda: {"sampling": 0.0, "training": 0.0})
    # When it last had a turn, or began to wait for one.
    served: dict[Lane, float] = field(default_factory=lambda: {"sampling": 0.0, "training": 0.0})

    def weight(self) -> float:
        """Its part of the device while exactly those work who work now, in no unit."""
        rivals = sum(account.priority for account in self.share.accounts if account.work or account is self)
        return self.share.priority * self.priority / rivals
