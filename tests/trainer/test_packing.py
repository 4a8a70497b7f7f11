"""The prefix tree: what it shares, where it is cut, and that cutting looks at the request alone."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from motet.engine.trainer.packing import cut_pieces, pack
from motet.engine.types import Datum


def datum(tokens: list[int]) -> Datum:
    array = np.asarray(tokens)
    return Datum(tokens=array, targets=array)


def test_a_shared_prefix_is_one_set_of_rows() -> None:
    (piece,) = cut_pieces((datum([1, 2, 3, 4]), datum([1, 2, 3, 5]), datum([1, 9])), max_rows=100)
    assert piece.tokens.tolist() == [1, 2, 3, 4, 5, 9]
    assert piece.positions.tolist() == [0, 1, 2, 3, 3, 1]
    assert [path.tolist() for path in piece.paths] == [[0, 1, 2, 3], [0, 1, 2, 4], [0, 5]]
    assert piece.first_rows == [0, 4, 5, 6]


def test_a_repeated_datum_has_no_rows_of_its_own() -> None:
    (piece,) = cut_pieces((datum([1, 2]), datum([1, 2]), datum([1])), max_rows=100)
    assert piece.rows == 2
    packed = pack([piece, piece], torch.device("cpu"))
    assert packed.bounds == [0, 2, 4]
    assert packed.sequences.query_counts.tolist() == [2, 2]
    assert packed.sequences.key_rows.tolist() == [0, 1, 2, 3]
    assert packed.sequences.group_bounds.tolist() == [0, 1, 2]


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=12), st.integers(1, 30))
def test_pieces_hold_every_datum_once_and_in_order(data: list[list[int]], max_rows: int) -> None:
    pieces = cut_pieces(tuple(datum(tokens) for tokens in data), max_rows)
    seen = []
    for piece in pieces:
        assert piece.rows <= max_rows or len(piece.data) == 1
        for path in piece.paths:
            seen.append(piece.tokens[path].tolist())
            assert piece.positions[path].tolist() == list(range(len(path)))
    assert seen == data
