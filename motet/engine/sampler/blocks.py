"""Blocks of cached keys and values: who holds which, and which prefix stands in one already.

Bookkeeping only: the tensors are `ops.attention.KVPool`. A full block is known by a digest chained from the version
through every token before its end, so that equal prefixes under one version, and only those, share their blocks.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict

import numpy as np

from motet.engine.types import IntArray

BLOCK = 16  # tokens


def chain(owner: str, tokens: IntArray, start: int = 0, before: bytes = b"") -> list[bytes]:
    """Digests of the full blocks of `tokens` from block `start` on; `before` is the digest of block start - 1."""
    data = np.ascontiguousarray(tokens, dtype=np.int32)
    digest, digests = before or owner.encode(), []
    for block in range(start, len(data) // BLOCK):
        digest = hashlib.blake2b(digest + data[block * BLOCK : (block + 1) * BLOCK].tobytes(), digest_size=16).digest()
        digests.append(digest)
    return digests


class BlockTable:
    """Hands out blocks, counts their holders, and keeps let-go prefixes for the next who asks.

    At most `idle_share` of all blocks may be kept for one owner (a version) that nobody is using.
    """

    def __init__(self, blocks: int, idle_share: float = 0.25) -> None:
        self.blocks = blocks
        self._free = list(range(blocks - 1, -1, -1))
        self._holders = [0] * blocks
        self._digest_of: dict[int, bytes] = {}
        self._owner_of: dict[int, str] = {}
        self._block_of: dict[bytes, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # known, held by nobody; oldest first
        self._idle_of: Counter[str] = Counter()
        self._idle_cap = max(1, int(blocks * idle_share))

    def available(self) -> int:
        """Blocks that can be had: free ones, and idle prefixes that would go."""
        return len(self._free) + len(self._idle)

    def idle(self) -> int:
        """Blocks kept for their prefix only."""
        return len(self._idle)

    def take(self) -> int:
        """A block of one's own. The caller has made sure that one is available."""
        if not self._free:
            self._forget(next(iter(self._idle)))
        block = self._free.pop()
        self._holders[block] = 1
        return block

    def share(self, block: int) -> None:
        """One holder more."""
        if self._holders[block] == 0:
            del self._idle[block]
            self._idle_of[self._owner_of[block]] -= 1
        self._holders[block] += 1

    def let_go(self, block: int) -> None:
        """One holder less; a block with a known prefix stays, idle, until its space is needed."""
        self._holders[block] -= 1
        if self._holders[block] > 0:
            return
        if block not in self._digest_of:
            self._free.append(block)
            return
        owner = self._owner_of[block]
        self._idle[block] = None
        self._idle_of[owner] += 1
        if self._idle_of[owner] > self._idle_cap:
            self._forget(next(b for b in self._idle if self._owner_of[b] == owner))

    def match(self, digests: list[bytes]) -> list[int]:
        """The longest known run of blocks from the start; the caller is made a holder of each."""
        found = []
        for digest in digests:
            if digest not in self._block_of:
                break
            found.append(self._block_of[digest])
        for block in found:
            self.share(block)
        return found

    def known(self, digest: bytes) -> bool:
        return digest in self._block_of

    def remember(self, owner: str, block: int, digest: bytes) -> None:
        """Say what stands in a full block that one holds. The first to say so is the one others find."""
        if digest in self._block_of or block in self._digest_of:
            return
        self._block_of[digest], self._digest_of[block], self._owner_of[block] = block, digest, owner

    def forget_owner(self, owner: str) -> None:
        """A version is gone: its idle prefixes go too."""
        for block in [b for b in self._idle if self._owner_of[b] == owner]:
            self._forget(block)

    def _forget(self, block: int) -> None:
        del self._idle[block]
        self._idle_of[self._owner_of.pop(block)] -= 1
        del self._block_of[self._digest_of.pop(block)]
        self._free.append(block)
