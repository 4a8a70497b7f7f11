"""Bodies that ask for more than they are: bounded before they are parsed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import zstandard
from fastapi import HTTPException
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from tinker import types
from tinker.proto.request_conv import forward_backward_request_to_proto

from motet.errors import BadRequest
from motet.service.http.limits import MAX_DEPTH, MAX_GROUPS, UnfitValue, check_json, check_nesting, unpack
from motet.service.wire import bounds
from motet.service.wire import protobuf as pb
from motet.service.wire.bounds import MAX_PARTS, SMALL, check_parts, form_of
from motet.service.wire.training import parse_forward_backward

FORM = form_of(pb.ForwardBackwardRequest.DESCRIPTOR)


def large(datums: int, tokens: int) -> bytes:
    """As the SDK writes it, with every input a loss may have."""
    inputs: dict[str, Any] = {
        name: np.zeros(tokens, np.float32) for name in ("weights", "logprobs", "advantages", "sequence_ratio_mask")
    }
    data = [
        types.Datum(
            model_input=types.ModelInput.from_ints(list(range(tokens))),
            loss_fn_inputs={"target_tokens": np.arange(tokens), **inputs},
        )
        for _ in range(datums)
    ]
    inner = types.ForwardBackwardInput(data=data, loss_fn="cross_entropy")
    request = types.ForwardBackwardRequest(forward_backward_input=inner, model_id="run", seq_id=1)
    return bytes(forward_backward_request_to_proto(request).SerializeToString())


def test_what_the_sdk_sends_at_most_is_well_inside() -> None:
    body = large(1024, 64)
    assert len(parse_forward_backward(body).data) == 1024
    assert len(parse_forward_backward(3 * body).data) == 3 * 1024


def field(number: int, content: bytes) -> bytes:
    length, head = len(content), bytearray([number << 3 | 2])
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    return bytes(head) + bytes([length]) + content


BOMBS = {
    "datums": field(3, b"") * MAX_PARTS + b"\x10\x01",
    "chunks": field(3, field(1, b"") * MAX_PARTS + b"\x10\x01"),
    "inputs": field(3, field(2, b"") * (MAX_PARTS + 1)),
    "settings": field(7, b"") * (MAX_PARTS + 1),
    "a packed shape": field(3, field(2, field(2, field(4, b"\x01" * (MAX_PARTS + 1))))),
    "a shape": field(3, field(2, field(2, b"\x20\x01" * (MAX_PARTS + 1)))),
    "unknown fields": b"\x78\x01" * (MAX_PARTS + 1),
    "groups": b"\x7b\x7c" * MAX_PARTS,
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_many_parts_are_refused(bomb: bytes) -> None:
    with pytest.raises(BadRequest, match="parts"):
        parse_forward_backward(bomb)


def test_a_long_name_is_refused() -> None:
    with pytest.raises(BadRequest, match="text"):
        parse_forward_backward(field(1, b"x" * SMALL))
    with pytest.raises(BadRequest, match="text"):
        parse_forward_backward(field(3, field(2, field(1, b"x" * SMALL))))


def parts(message: Any) -> int:
    """What the walk must have counted at least, of a parsed message: everything in it that is set."""
    count = 0
    for descriptor, value in message.ListFields():
        entries = descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry
        if entries:
            inner = descriptor.message_type.fields_by_name["value"].message_type is not None
            count += len(value) + (sum(parts(one) for one in value.values()) if inner else 0)
        elif descriptor.is_repeated:
            inner = descriptor.message_type is not None
            count += sum(1 + parts(one) for one in value) if inner else len(value)
        else:
            count += 1 + (parts(value) if descriptor.message_type is not None else 0)
    return count


BODY = large(12, 3)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(BODY) - 1), st.integers(0, 255)), max_size=8), st.integers(0, len(BODY)))
def test_the_walk_counts_whatever_the_parser_makes(changes: list[tuple[int, int]], end: int) -> None:
    """Bytes changed anywhere, cut anywhere: where they parse, the walk has seen every part of it."""
    body = bytearray(BODY)
    for place, value in changes:
        body[place] = value
    mutated = bytes(body[:end])
    message = pb.ForwardBackwardRequest()
    try:
        message.ParseFromString(mutated)
    except DecodeError:
        return
    left = bounds._walk(mutated, 0, len(mutated), FORM, MAX_PARTS)
    assert MAX_PARTS - left >= parts(message)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_refused_or_read(body: bytes) -> None:
    try:
        check_parts(body * (SMALL // max(len(body), 1) + 2), FORM)
        parse_forward_backward(body)
    except BadRequest:
        pass


# -- JSON and zstd ---------------------------------------------------------------------------------------------

TEXT = st.text(max_size=8)
JSON = st.recursive(
    st.none() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=20,
)


def depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max((depth(one) for one in inner), default=0)


@settings(max_examples=200, deadline=None)
@given(JSON, st.integers(0, 40))
def test_json_passes_by_its_depth(value: Any, wrapped: int) -> None:
    for _ in range(wrapped):
        value = [value]
    body = json.dumps(value).encode()
    if depth(value) <= MAX_DEPTH:
        check_nesting(body)
    else:
        with pytest.raises(HTTPException):
            check_nesting(body)


@pytest.mark.parametrize(
    "value",
    [2**63, -(2**63) - 1, 10**400, "a\0", "\ud800", {"\udfff": 1}, [[{"a": ["\0"]}]]],
    ids=lambda value: repr(value)[:12],
)
@pytest.mark.parametrize("ascii", [True, False])
def test_a_value_that_nothing_takes_is_refused(value: Any, ascii: bool) -> None:
    body = json.dumps({"model_id": "run", "x": value}, ensure_ascii=ascii).encode("utf-8", "surrogatepass")
    with pytest.raises(UnfitValue) as raised:
        check_json(body)
    assert raised.value.content == {"model_id": "run", "x": value}


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 1.2345678901234567e-300, "\U0001f600 \\u0000", 1e22])
def test_a_value_that_is_only_odd_is_taken(value: Any) -> None:
    for ascii in (True, False):
        check_json(json.dumps({"x": value, "more": "\\ud800"}, ensure_ascii=ascii).encode())
    check_json(b"12345678901234567890 no JSON")


def test_json_is_utf8() -> None:
    with pytest.raises(HTTPException, match="UTF-8"):
        check_json(json.dumps({"a": 1}).encode("utf-16"))


def test_brackets_in_texts_do_not_nest() -> None:
    check_nesting(json.dumps({"a": "[{" * 100_000, 'b"[': '\\"' + "[" * 100}).encode())
    check_nesting(json.dumps([[]] * (MAX_GROUPS - 1)).encode())
    for body in (b"[" * 1_000_000, json.dumps([[]] * MAX_GROUPS).encode(), b'"' + b"[" * 40):
        with pytest.raises(HTTPException):
            check_nesting(body)


def test_a_packed_body_is_unpacked_as_far_as_the_limit() -> None:
    assert unpack(zstandard.compress(b"x" * 1000), 1000) == b"x" * 1000
    with pytest.raises(HTTPException):
        unpack(zstandard.compress(b"x" * 1001), 1000)
    with pytest.raises(HTTPException):
        unpack(zstandard.compress(bytes(1 << 28)), 1000)
    with pytest.raises(BadRequest):
        unpack(b"no zstd", 1000)


def test_a_frame_that_wants_much_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    writer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(BadRequest, match="no zstd"):
        unpack(writer.compress(b"x" * 100) + writer.flush(), 1000)
