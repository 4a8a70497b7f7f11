"""Recorded text, as it may be shown: a policy can write anything, also what steers a terminal."""

from __future__ import annotations

import unicodedata

KEPT = "\n\t"
STEERING = frozenset({"Cc", "Cs", "Co", "Cn"})  # controls, halves of characters, and what is none
DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # turn the reading order around


def visible(text: str) -> str:
    """Whatever steers instead of being read, as a picture of itself or as �."""
    return text if text.isascii() and text.isprintable() else "".join(map(_visible, text))


def _visible(one: str) -> str:
    if one in KEPT or (one.isprintable() and one not in DIRECTIONS):
        return one
    if ord(one) < 32:
        return chr(0x2400 + ord(one))
    return "�" if one in DIRECTIONS or unicodedata.category(one) in STEERING else one


def shortened(text: str, most: int) -> str:
    """The end of a long text: of a prompt, that is where the question stands."""
    return text if len(text) <= most else f"…{text[-most:]}"
