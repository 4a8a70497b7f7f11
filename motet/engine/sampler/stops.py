"""Stop strings, found in the bytes that a sample writes: a string may end inside a token, or span several."""

from __future__ import annotations

from motet.engine.sampler.sequence import Sequence


class StopFinder:
    """Knows the bytes of every token of the vocabulary."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def found(self, member: Sequence, token: int) -> bool:
        """Has a stop string of the request ended in this token?"""
        stops = member.group.stop_bytes
        if not stops:
            return False
        tail = member.text_tail + (self._pieces[token] if token < len(self._pieces) else b"")
        longest = max(len(stop) for stop in stops)
        member.text_tail = tail[-(longest - 1) :] if longest > 1 else b""
        return any(stop in tail for stop in stops)
