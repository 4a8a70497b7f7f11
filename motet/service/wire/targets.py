"""target_prompt_logprobs: tokens to score at a prompt's places, asked and answered dense or as sparse CSR.

Row i of a tensor is place i + 1 of the prompt. A dense cell of -1 asks nothing, nor does a cell that is not listed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.engine.types import FloatArray, GivenTokens
from motet.errors import BadRequest
from motet.service.wire import protobuf as pb
from motet.service.wire.schemas import TensorData
from motet.service.wire.tensors import encode_dense

NAME = "target_prompt_logprobs"
NOTHING = -1


def read_targets(tensor: TensorData, places: int) -> GivenTokens:
    """The cells that ask for something, in order. BadRequest: not (places - 1, K), or nothing is asked."""
    shape = tensor.shape or []
    if tensor.dtype != "int64" or len(shape) != 2 or shape[0] != places - 1 or shape[1] < 1:
        raise BadRequest(
            f"{NAME} is {tensor.dtype} of the shape {shape}: send int64 of {places - 1} rows, one for each token "
            "of the prompt after the first"
        )
    tokens, rows = _array(tensor.data), _rows(tensor, shape)
    if len(tokens) != len(rows):
        raise BadRequest(f"{NAME} has {len(tokens)} values, and its layout says {len(rows)}")
    asked = tokens != NOTHING
    if not asked.any():
        raise BadRequest(f"{NAME} names no token: leave it out")
    return GivenTokens(rows[asked] + 1, tokens[asked])


def _rows(tensor: TensorData, shape: list[int]) -> NDArray[np.int64]:
    """The row of every value."""
    if tensor.sparse_crow_indices is None:
        if shape[0] * shape[1] != len(tensor.data):  # before anything of that size is made
            raise BadRequest(f"{NAME} has {len(tensor.data)} values, and its shape says {shape}")
        return np.repeat(np.arange(shape[0]), shape[1])
    starts, columns = _array(tensor.sparse_crow_indices), _array(tensor.sparse_col_indices or [])
    steps = np.diff(starts)
    if len(starts) != shape[0] + 1 or starts[0] != 0 or (steps < 0).any() or starts[-1] != len(columns):
        raise BadRequest(f"{NAME}: sparse_crow_indices do not describe {shape[0]} rows of {len(columns)} values")
    if ((columns < 0) | (columns >= shape[1])).any():
        raise BadRequest(f"{NAME}: sparse_col_indices must be 0 to {shape[1] - 1}")
    return np.repeat(np.arange(shape[0]), steps)


def _array(numbers: list[int]) -> NDArray[np.int64]:
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        raise BadRequest(f"{NAME} has a number that does not fit 64 bits") from None


def encode_targets(tensor: TensorData, logprobs: FloatArray, message: Any) -> None:
    """Fill a Tensor message with the layout of the request; 0 where nothing was asked."""
    values = np.zeros(len(tensor.data), np.float32)
    values[np.array(tensor.data) != NOTHING] = logprobs
    if tensor.sparse_crow_indices is None:
        encode_dense(values.reshape(tensor.shape or ()), pb.FLOAT32, message)
        return
    message.dtype = pb.FLOAT32
    message.shape.extend(tensor.shape or ())
    message.sparse_csr.values = values.astype("<f4").tobytes()
    message.sparse_csr.crow_indices = np.array(tensor.sparse_crow_indices, "<i8").tobytes()
    message.sparse_csr.col_indices = np.array(tensor.sparse_col_indices, "<i8").tobytes()
