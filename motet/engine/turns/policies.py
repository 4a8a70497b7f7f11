"""The three policies. Each says who comes first, how far a batch is filled up with others, and which lane gets what.

No policy changes a number: what stands together in a pass or a step does not matter to any result.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Protocol

from motet.engine.turns.accounts import Account
from motet.engine.types import Lane, PolicyName

Rank = tuple[float, ...]


class Policy(Protocol):
    """Whoever comes first takes all the room it wants; the others fill up what is left."""

    step_rows: int  # others join a sampling step up to so many sequences, and so many rows of prompts
    fills_passes: bool  # others join a training pass up to its token budget
    patient: bool  # a lane goes on with its pass or step until the other has waited for as long as it may

    def rank(self, account: Account, lane: Lane) -> Rank:
        """Lowest first. Of equals the one opened first."""
        ...

    def budget(self, lane: Lane, working: Sequence[Account]) -> float:
        """A lane's part of device time against the other's, in no unit, where these accounts have work."""
        ...


class Fair:
    """Equal priorities get equal device time: whoever has had least comes first, in its share and its share among all.

    A lane gets what the runs with work on it are due, so that a lone trainer beside seven samplers has its eighth.
    """

    step_rows = 256
    fills_passes = True
    patient = False

    def rank(self, account: Account, lane: Lane) -> Rank:
        return account.share.tag, account.tag

    def budget(self, lane: Lane, working: Sequence[Account]) -> float:
        return sum(account.weight() * account.open[lane] / sum(account.open.values()) for account in working)


class Throughput:
    """Batches as full as they can be, and few changes of lane. Turns go round, whatever they cost."""

    step_rows = sys.maxsize
    fills_passes = True
    patient = True

    def rank(self, account: Account, lane: Lane) -> Rank:
        return (account.served[lane],)

    def budget(self, lane: Lane, working: Sequence[Account]) -> float:
        return 1.0


class FirstCome:
    """The run opened first goes nearly as if it were alone; what it leaves free goes to the next, and so on."""

    step_rows = 16  # a step of so few rows costs little more than a step of one
    fills_passes = False
    patient = False

    def rank(self, account: Account, lane: Lane) -> Rank:
        return (account.number,)

    def budget(self, lane: Lane, working: Sequence[Account]) -> float:
        first = min(working, key=lambda account: account.number, default=None)
        return 1.0 if first is None or first.open[lane] else 0.0


POLICIES: dict[PolicyName, type[Policy]] = {"fair": Fair, "throughput": Throughput, "first-come": FirstCome}
