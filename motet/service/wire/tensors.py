"""Tensors on the wire: dense or sparse CSR in, batched out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.engine.types import FloatArray, TopLogprobs
from motet.errors import BadRequest
from motet.service.wire import protobuf as pb

MAX_CELLS = 1 << 24  # of a request's sparse tensors once they are dense: a few bytes of CSR may announce any shape
MAX_COLUMNS = 1024
MAX_DIMENSIONS = 4
DTYPES: dict[int, np.dtype[Any]] = {
    pb.FLOAT32: np.dtype("<f4"),
    pb.INT64: np.dtype("<i8"),
    pb.INT32: np.dtype("<i4"),
    pb.BFLOAT16: np.dtype("<u2"),
}


def sparse_cells(name: str, message: Any, tokens: int) -> int:
    """How many cells a tensor will have that says only a few of them; 0 where it is dense.

    BadRequest where it has another shape than its datum's tokens, or very many columns: before anything is made.
    """
    if not message.HasField("sparse_csr"):
        return 0
    shape = tuple(message.shape)
    if len(shape) != 2 or shape[0] != tokens or not 0 <= shape[1] <= MAX_COLUMNS:
        raise BadRequest(
            f"{name} is sparse with the shape {list(shape)}: it must be 2-D, of the datum's {tokens} tokens and "
            f"{MAX_COLUMNS} columns at most"
        )
    return prod(shape)


def decode_tensor(name: str, message: Any) -> NDArray[Any]:
    """A Tensor message as a dense array of float32, int64 or int32; BadRequest says what does not fit.

    Where it is sparse, `sparse_cells` has found its shape to be good.
    """
    if message.dtype not in DTYPES:
        raise BadRequest(f"{name} has the unknown dtype {message.dtype}: send float32, int64, int32 or bfloat16")
    shape = tuple(message.shape)
    if len(shape) > MAX_DIMENSIONS:
        raise BadRequest(f"{name} has {len(shape)} dimensions: send at most {MAX_DIMENSIONS}")
    if message.HasField("sparse_csr"):
        return _widen(message.dtype, _decode_csr(name, message.sparse_csr, DTYPES[message.dtype], shape))
    flat = decode_bytes(name, message.dense, DTYPES[message.dtype])
    if shape and (min(shape) < 0 or prod(shape) != flat.size):
        raise BadRequest(f"{name} has {flat.size} values, and its shape says {list(shape)}")
    return _widen(message.dtype, flat.reshape(shape) if shape else flat)


def decode_bytes(name: str, data: bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Packed numbers as a 1-D array."""
    if len(data) % dtype.itemsize:
        raise BadRequest(f"{name} has {len(data)} bytes, which is no whole number of values of {dtype.itemsize} bytes")
    return np.frombuffer(data, dtype)


def _decode_csr(name: str, csr: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Cells that are not listed are 0."""
    index = np.dtype("<i8")
    values = decode_bytes(f"{name}.values", csr.values, dtype)
    rows = decode_bytes(f"{name}.crow_indices", csr.crow_indices, index)
    columns = decode_bytes(f"{name}.col_indices", csr.col_indices, index)
    steps = np.diff(rows)
    if len(rows) != shape[0] + 1 or rows[0] != 0 or rows[-1] != len(values) or (steps < 0).any():
        raise BadRequest(f"{name}.crow_indices do not describe {shape[0]} rows of {len(values)} values")
    if len(columns) != len(values) or ((columns < 0) | (columns >= shape[1])).any():
        raise BadRequest(f"{name}.col_indices must be {len(values)} columns of 0 to {shape[1] - 1}")
    dense = np.zeros(shape, dtype)
    dense[np.repeat(np.arange(shape[0]), steps), columns] = values
    return dense


def _widen(dtype: int, array: NDArray[Any]) -> NDArray[Any]:
    """bfloat16 as float32: its bits are the upper half."""
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == pb.BFLOAT16 else array


def encode_records(name: str, arrays: Sequence[FloatArray], records: Any) -> None:
    """Append one ArrayRecord for each stretch of arrays whose trailing shapes agree, datums in order."""
    for trailing, stretch in groupby(arrays, key=lambda array: array.shape[1:]):
        members = [np.ascontiguousarray(array, "<f4") for array in stretch]
        record = records.add(type_tag="ArrayRecord", num_datums=len(members))
        field = record.fields[name]
        field.dtype = pb.FLOAT32
        field.data = b"".join(member.tobytes() for member in members)
        field.offsets = np.cumsum([0] + [member.nbytes for member in members]).astype("<i8").tobytes()
        field.trailing_shape.extend(trailing)


def encode_dense(array: NDArray[Any], dtype: int, message: Any) -> None:
    """Fill a Tensor message with all values of an array and its shape."""
    message.dense, message.dtype = np.ascontiguousarray(array, DTYPES[dtype]).tobytes(), dtype
    message.shape.extend(array.shape)


def encode_top(top: TopLogprobs, message: Any) -> None:
    """Fill a TopkLogprobs message."""
    message.length, message.k = top.tokens.shape
    message.token_ids = np.ascontiguousarray(top.tokens, "<i4").tobytes()
    message.logprobs = np.ascontiguousarray(top.logprobs, "<f4").tobytes()
