"""The rows of a batch on CUDA, and of its mirror image: read by kernels, or sorted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.cuda.sort import sort_keys
from dynstore.batches.cuda.unique import keep_pairs, pack_keys
from dynstore.cuda.compiler import device

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["d_count_rows", "d_read_edge", "d_read_row", "sort_pairs"]


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


def sort_pairs(backend: Backend, src: Array, dst: Array, mirrored: bool) -> tuple[Array, Array, int]:
    """Sort int32 edges by (src, dst) and keep each once; ``mirrored``: in both directions, self-loops once.

    Also returns how many are self-loops.
    """
    return keep_pairs(backend, sort_keys(backend, pack_keys(backend, src, dst, mirrored)))
