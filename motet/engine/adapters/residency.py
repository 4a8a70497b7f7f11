"""Who is in memory: least recently used goes to disk, what is pinned stays, and a swap blocks nobody else.

States and moves only; what an item is, and how it is written, is the item's own business.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from motet.errors import EngineFault

SLACK = 8  # a part of the budget by which memory may be exceeded until what must leave has left
log = logging.getLogger(__name__)


class Item(Protocol):
    """Something that is in memory or on disk. `spill` and `load` do the copy; where they raise, it is as it was."""

    @property
    def key(self) -> str:
        """Unique among all items there ever were."""
        ...

    def nbytes(self) -> int:
        """Bytes in memory now, or that `load` would take."""
        ...

    def spill(self) -> None: ...

    def load(self) -> None: ...


class _Entry:
    def __init__(self, item: Item) -> None:
        self.item = item
        self.resident = True
        self.moving = False  # its bytes are being copied; nobody else may touch it
        self.pins = 0
        self.last_used = 0
        self.fault: EngineFault | None = None  # it could not be brought back, and never will be


class Residency:
    """Keeps the items under a budget of bytes. More are there only while all are pinned, or the disk takes no more."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget = budget_bytes
        self.on_ready: Callable[[], None] = lambda: None  # called from the mover's thread
        self._entries: dict[str, _Entry] = {}
        self._changed = threading.Condition()
        self._clock = 0
        self._clearing = False  # room is going to be made
        self._mover = ThreadPoolExecutor(1, thread_name_prefix="motet-swap")
        self.swaps_in = 0
        self.swaps_out = 0

    def attach(self, on_ready: Callable[[], None]) -> None:
        """Called once, before anybody waits: whom to tell that something has come in or gone out."""
        self.on_ready = on_ready

    def add(self, item: Item) -> None:
        """Take in an item that is in memory; what must leave for it leaves in the background."""
        with self._changed:
            assert item.key not in self._entries, item.key
            self._entries[item.key] = entry = _Entry(item)
            self._touch(entry)
        self._mover.submit(self._make_room, 0)

    def has_room(self) -> bool:
        """May more be taken in? Not while memory is over its budget and something leaves: `on_ready` says when it has.

        Where nothing is leaving, all is pinned or the disk takes no more, the answer is yes: waiting would not help.
        """
        with self._changed:
            resident = [entry for entry in self._entries.values() if entry.resident]
            over = sum(entry.item.nbytes() for entry in resident) - self._budget
            if over > 0 and not self._clearing:
                self._clearing = True
                self._mover.submit(self._clear)
            return over <= self._budget // SLACK or not any(entry.moving for entry in resident)

    def remove(self, key: str) -> None:
        """Forget an item, once its copy in flight (if any) is over."""
        with self._changed:
            entry = self._entries[key]
            self._changed.wait_for(lambda: not entry.moving)
            del self._entries[key]

    def ready(self, key: str) -> bool:
        """Is it in memory? Where not, it is on its way in, or still on its way out: `on_ready` says when to ask again.

        Also True for one that cannot be brought back: `check` tells, and whoever asks for it fails at once.
        """
        with self._changed:
            entry = self._entries[key]
            if (entry.resident and not entry.moving) or entry.fault is not None:
                return True
            if not entry.moving:
                entry.moving = True
                self._mover.submit(self._bring_in, entry)
            return False

    def check(self, key: str) -> None:
        """EngineFault where the item could not be brought back."""
        with self._changed:
            fault = self._entries[key].fault
        if fault is not None:
            raise fault

    def pin(self, key: str) -> None:
        """Keep an item from leaving until `unpin`. It may still be out: see `ready` and `wait`."""
        with self._changed:
            entry = self._entries[key]
            entry.pins += 1
            self._touch(entry)

    def wait(self, key: str) -> None:
        """Return once the item is in memory. EngineFault where it cannot be brought back."""
        with self._changed:
            entry = self._entries[key]
        while not self.ready(key):
            with self._changed:
                self._changed.wait_for(lambda: not entry.moving)
        self.check(key)

    def unpin(self, key: str) -> int:
        """Let go of an item; gives how many still hold it."""
        with self._changed:
            entry = self._entries[key]
            entry.pins -= 1
            return entry.pins

    def pins(self, key: str) -> int:
        """How many hold the item."""
        with self._changed:
            return self._entries[key].pins

    def used_bytes(self) -> int:
        with self._changed:
            return sum(e.item.nbytes() for e in self._entries.values() if e.resident)

    def close(self) -> None:
        self._mover.shutdown(wait=True, cancel_futures=True)

    def _touch(self, entry: _Entry) -> None:
        self._clock += 1
        entry.last_used = self._clock

    def _bring_in(self, entry: _Entry) -> None:
        self._make_room(entry.item.nbytes())
        fault = None
        try:
            entry.item.load()
        except Exception as error:  # nobody waits for this thread: whoever waits for the item must hear of it
            fault = _fault("lost", error)
        with self._changed:
            entry.resident, entry.moving, entry.fault = fault is None, False, fault
            self._touch(entry)
            self.swaps_in += fault is None
            self._changed.notify_all()
        self.on_ready()

    def _clear(self) -> None:
        with self._changed:
            self._clearing = False
        self._make_room(0)

    def _make_room(self, needed: int) -> None:
        while (entry := self._take_victim(needed)) is not None:
            left = True
            try:
                entry.item.spill()
            except Exception as error:  # it stays where it is, and the budget is exceeded until a later try
                _fault("nothing can leave memory", error)
                left = False
            with self._changed:
                entry.resident, entry.moving = not left, False
                self.swaps_out += left
                self._clearing = not left  # the next that comes in tries again
                self._changed.notify_all()
            self.on_ready()  # somebody may have asked for it meanwhile
            if not left:
                return

    def _take_victim(self, needed: int) -> _Entry | None:
        with self._changed:
            resident = [e for e in self._entries.values() if e.resident]
            if sum(e.item.nbytes() for e in resident) + needed <= self._budget:
                return None
            idle = [e for e in resident if e.pins == 0 and not e.moving]
            victim = min(idle, key=lambda e: e.last_used, default=None)
            if victim is not None:
                victim.moving = True
            return victim


def _fault(what: str, error: Exception) -> EngineFault:
    """The error as others hear of it, and a line in the log: with its trace where nobody foresaw it."""
    if isinstance(error, EngineFault):
        log.error("%s: %s", what, error)
        return error
    log.error("%s", what, exc_info=error)
    return EngineFault(f"an adapter could not be moved: {type(error).__name__}: {error}")
