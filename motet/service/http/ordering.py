"""Order within a run: requests start by `seq_id`, whatever the order they arrive in."""

from __future__ import annotations

from collections.abc import Callable

from motet.errors import BadRequest

WINDOW = 4096  # a request may be so far ahead of the next one; chunks of one call are at most some hundreds apart


class RunOrder:
    """One run's requests, from number 1. Each starts once, after all those before it have started."""

    def __init__(self) -> None:
        self._next = 1
        self._claimed: set[int] = set()  # being accepted; not yet here
        self._held: dict[int, Callable[[], None]] = {}

    @property
    def held(self) -> int:
        """Requests that wait for an earlier one to arrive."""
        return len(self._held)

    def number(self, seq_id: int | None) -> int:
        """The number of a request that may not carry one: then the first that is free. BadRequest: out of bounds."""
        if seq_id is None:
            free = range(self._next, self._next + WINDOW + 1)
            return next(n for n in free if not self.knows(n))
        if not 1 <= seq_id < self._next + WINDOW:
            raise BadRequest(f"seq_id {seq_id} is out of order: this run's next request is {self._next}")
        return seq_id

    def knows(self, seq_id: int) -> bool:
        """Has this request arrived before?"""
        return seq_id < self._next or seq_id in self._held or seq_id in self._claimed

    def reaches(self, seq_id: int) -> bool:
        """Is everything before this request here, or being accepted? Then its turn comes without anything more."""
        return all(self.knows(number) for number in range(self._next, seq_id))

    def claim(self, seq_id: int) -> None:
        """A request that has not arrived before is being accepted."""
        assert not self.knows(seq_id), seq_id
        self._claimed.add(seq_id)

    def release(self, seq_id: int) -> None:
        """It could not be accepted: it may be sent again."""
        self._claimed.discard(seq_id)

    def arrive(self, seq_id: int, start: Callable[[], None]) -> None:
        """File an accepted request, and start all whose turn it is."""
        self._claimed.discard(seq_id)
        assert not self.knows(seq_id), seq_id
        self._held[seq_id] = start
        while self._next in self._held:
            begin = self._held.pop(self._next)
            self._next += 1
            begin()

    def resume(self, next_number: int) -> None:
        """Go on where an earlier server stood: all before this number have started."""
        assert not self._held and self._next <= next_number
        self._next = next_number
