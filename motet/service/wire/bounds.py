"""A protobuf body is walked over before it is parsed: a few bytes of it may ask for many objects.

What is counted are parts: fields at any depth, and the values of a packed field. The walk builds nothing. Where the
bytes are no protobuf it ends, as the parser will.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from motet.errors import BadRequest

MAX_PARTS = 131_072  # a datum has about 30; the SDK sends 1,024 datums at most in one request
MAX_TEXT = 400  # bytes of a name or an id
SMALL = 16_384  # bytes: so short a body is harmless whatever is in it

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = range(6)  # the wire types
MAX_VARINT = 10  # bytes


@dataclass(frozen=True)
class Form:
    """What the walk needs to know of a message, by field number."""

    inner: Mapping[int, Form] = field(default_factory=dict)
    text: frozenset[int] = frozenset()
    numbers: frozenset[int] = frozenset()  # repeated: they may come packed


def form_of(descriptor: Any) -> Form:
    """The form of a message that does not hold itself."""
    fields = descriptor.fields
    return Form(
        {one.number: form_of(one.message_type) for one in fields if one.message_type is not None},
        frozenset(one.number for one in fields if one.type == one.TYPE_STRING),
        frozenset(one.number for one in fields if one.is_repeated and one.message_type is None),
    )


def check_parts(body: bytes, form: Form) -> None:
    """BadRequest where a message has too many parts, or a text that is too long."""
    if len(body) > SMALL:
        _walk(body, 0, len(body), form, MAX_PARTS)


def _walk(body: bytes, at: int, end: int, form: Form, left: int) -> int:
    """Count the parts from `at` to `end` down from `left`; gives what is left. Short numbers are read in place."""
    inner, text, numbers = form.inner, form.text, form.numbers
    while at < end:
        left -= 1
        tag = body[at]
        at += 1
        if tag > 127:
            tag, at = _varint(body, at - 1, end)
        kind = tag & 7
        if kind == BYTES and at < end:
            length = body[at]
            at += 1
            if length > 127:
                length, at = _varint(body, at - 1, end)
            after, number = at + length, tag >> 3
            if after > end:
                return left
            if number in inner:
                left = _walk(body, at, after, inner[number], left)
            elif number in numbers:
                left -= length
            elif number in text and length > MAX_TEXT:
                raise BadRequest(f"the body has a text of {length} bytes: {MAX_TEXT} at most")
            at = after
        elif kind == VARINT:
            _, at = _varint(body, at, end)
        elif kind == FIXED64:
            at += 8
        elif kind == FIXED32:
            at += 4
        elif kind not in (GROUP, GROUP_END):
            return left
        if left < 0:
            raise BadRequest(f"the body has more than {MAX_PARTS} parts: send fewer datums in one request")
    return left


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    """A number, and where it ends; past `end` where the bytes are none."""
    value = shift = 0
    for place in range(at, min(end, at + MAX_VARINT)):
        byte = body[place]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place + 1
        shift += 7
    return value, end + 1
