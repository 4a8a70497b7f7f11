"""Datums become rows of one batch; what datums of a request share as a prefix becomes rows only once.

A token's numbers depend on itself and on those before it, so datums that begin alike agree there. The rows of a request
are the nodes of its prefix tree. Which requests share a pass is the queue's doing; the tree, and where a long request
is cut into pieces, follow from the request alone, and so does the order in which a run's gradient is summed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from motet.engine.ops.attention import PackedSequences
from motet.engine.types import Datum, IntArray


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive datums of one request, run in one pass: the prefix tree of their tokens.

    Row i holds token tokens[i] at position positions[i]; datum d reads rows paths[d], and rows
    [first_rows[d], first_rows[d + 1]) are those that it was the first to need.
    """

    data: tuple[Datum, ...]
    tokens: IntArray
    positions: IntArray
    paths: list[IntArray]
    first_rows: list[int]

    @property
    def rows(self) -> int:
        return len(self.tokens)


@dataclass
class _Tree:
    """A prefix tree under growth: the child of a row by its token."""

    children: dict[tuple[int, int], int] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    paths: list[IntArray] = field(default_factory=list)
    first_rows: list[int] = field(default_factory=lambda: [0])
    data: list[Datum] = field(default_factory=list)

    def shared(self, tokens: list[int]) -> list[int]:
        """The rows that already hold the beginning of these tokens."""
        path, parent = [], -1
        for token in tokens:
            row = self.children.get((parent, token))
            if row is None:
                break
            path.append(row)
            parent = row
        return path

    def add(self, datum: Datum, tokens: list[int], path: list[int]) -> None:
        for token in tokens[len(path) :]:
            row = len(self.tokens)
            self.children[path[-1] if path else -1, token] = row
            self.tokens.append(token)
            self.positions.append(len(path))
            path.append(row)
        self.paths.append(np.asarray(path, np.int32))
        self.first_rows.append(len(self.tokens))
        self.data.append(datum)

    def piece(self) -> Piece:
        return Piece(
            tuple(self.data),
            np.asarray(self.tokens, np.int64),
            np.asarray(self.positions, np.int64),
            self.paths,
            self.first_rows,
        )


def cut_pieces(data: tuple[Datum, ...], max_rows: int) -> list[Piece]:
    """Cut a request where its next datum's own rows would pass `max_rows`. A longer datum is a piece alone."""
    pieces: list[Piece] = []
    tree = _Tree()
    for datum in data:
        tokens = datum.tokens.tolist()
        path = tree.shared(tokens)
        if tree.data and len(tree.tokens) + len(tokens) - len(path) > max_rows:
            pieces.append(tree.piece())
            tree, path = _Tree(), []
        tree.add(datum, tokens, path)
    pieces.append(tree.piece())
    return pieces


@dataclass(frozen=True, eq=False)
class Pack:
    """The pieces of a pass, end to end; piece i has rows [bounds[i], bounds[i + 1])."""

    pieces: list[Piece]
    bounds: list[int]
    tokens: torch.Tensor
    positions: torch.Tensor
    sequences: PackedSequences


def pack(pieces: list[Piece], device: torch.device) -> Pack:
    """Join pieces into one batch. Each piece is a group of its own: nothing is shared between requests."""
    bounds = np.concatenate([[0], np.cumsum([piece.rows for piece in pieces])]).tolist()
    key_rows, query_counts, group_bounds = [], [], [0]
    for piece, start in zip(pieces, bounds, strict=False):
        for path, first, following in zip(piece.paths, piece.first_rows, piece.first_rows[1:], strict=False):
            if following > first:
                key_rows.append(path + start)
                query_counts.append(following - first)
        group_bounds.append(len(key_rows))
    sequences = PackedSequences(
        key_rows=np.concatenate(key_rows).astype(np.int32),
        key_bounds=np.concatenate([[0], np.cumsum([len(rows) for rows in key_rows])]).astype(np.int32),
        query_counts=np.asarray(query_counts, np.int32),
        group_bounds=np.asarray(group_bounds, np.int32),
    )
    tokens = torch.from_numpy(np.concatenate([piece.tokens for piece in pieces])).to(device)
    positions = torch.from_numpy(np.concatenate([piece.positions for piece in pieces])).to(device)
    return Pack(pieces, bounds, tokens, positions, sequences)
