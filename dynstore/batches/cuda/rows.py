"""The rows of an unsorted batch on CUDA, and of its mirror image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.unsorted import RawEdges
from dynstore.cuda.compiler import device

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["d_count_rows", "d_read_edge", "d_read_row", "make_pairs"]


@device
def d_read_row(edge_src, edge_dst, mirrored, i):
    """Return source and destination of a row: an edge, or with ``mirrored``, behind all edges, a mirror image."""
    num_edges = np.int64(edge_src.shape[0])
    is_mirror = mirrored and i >= num_edges
    at = np.uint64(i - num_edges if is_mirror else i)
    row, column = np.int64(edge_src[at]), np.int64(edge_dst[at])
    return (column, row) if is_mirror else (row, column)


@device
def d_read_edge(edge_src, edge_dst, mirrored, i, num_rows, num_vertices):
    """Return source and destination of a row, and whether it exists with valid ids; else the source has no edges."""
    row, column = d_read_row(edge_src, edge_dst, mirrored, min(np.int64(i), num_rows - 1))
    known = (np.int64(i) < num_rows) & (min(row, column) >= 0) & (max(row, column) < num_vertices)
    return np.int32(row if known else num_vertices), np.int32(column), known


@device
def d_count_rows(edge_src, mirrored):
    """Return how many rows there are, mirror images included."""
    num_edges = np.int64(edge_src.shape[0])
    return 2 * num_edges if mirrored else num_edges


def make_pairs(backend: Backend, src: Array, dst: Array, mirrored: bool) -> RawEdges:
    """Return int32 edges as a batch that is sorted only when needed; ``mirrored``: in both directions."""
    return RawEdges(backend, src, dst, mirrored)
