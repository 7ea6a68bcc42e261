"""In-edges of edges that may be more than the device can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.sorted import EdgeBatch, sort_unique
from dynstore.stores.table import selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dynstore.backend import Backend
    from dynstore.stores.table.selection import Columns
    from dynstore.typing import Array

__all__ = ["transpose_pieces"]

# Bytes of device memory that sorting an edge takes, at most.
SORT_BYTES = 128


def transpose_pieces(
    backend: Backend,
    make_pieces: Callable[[], Iterator[Columns]],
    num_vertices: int,
    vertex_dtype: np.dtype,
    weight_dtype: np.dtype | None,
) -> EdgeBatch:
    """Return edges with source and destination exchanged, sorted, in host memory that kernels use in place.

    The device holds the edges to some neighbouring destinations at a time, as many as its free memory allows. For each
    of these parts, and once before, all edges are read.

    Parameters
    ----------
    make_pieces : callable
        Returns an iterator of pieces of the edges: sources, destinations, and weights or None.
    """
    degrees = backend.zeros(num_vertices, np.int64)
    for _, heads, _ in make_pieces():
        if heads.shape[0]:  # CuPy cannot count an empty array
            degrees += backend.xp.bincount(heads, minlength=num_vertices)
    ends, total = backend.xp.cumsum(degrees), int(degrees.sum())
    src, dst = (backend.empty_in("host", total, vertex_dtype) for _ in range(2))
    weights = None if weight_dtype is None else backend.empty_in("host", total, weight_dtype)
    low = first = 0
    most = max(selection.PIECE, (backend.free_bytes() or 0) // SORT_BYTES)
    while first < total:
        wanted = backend.asarray(np.array([first + most]))
        high = max(int(backend.xp.searchsorted(ends, wanted, side="right")[0]), low + 1)
        heads, tails, values = sort_unique(backend, *_edges_into(backend, make_pieces(), low, high))
        end = first + int(heads.shape[0])
        src[first:end], dst[first:end] = heads, tails
        if weights is not None:
            weights[first:end] = values
        low, first = high, end
    return EdgeBatch(src, dst, weights)


def _edges_into(backend: Backend, pieces: Iterator[Columns], low: int, high: int) -> tuple[Array, Array, Array | None]:
    """Return the edges to destinations from ``low`` to below ``high``, destinations first."""
    parts: list[list[Array]] = []
    for tails, heads, weights in pieces:
        chosen = (heads >= low) & (heads < high)
        parts.append([column[chosen] for column in (heads, tails, weights) if column is not None])
    heads, tails, *values = (backend.xp.concatenate(column) for column in zip(*parts, strict=True))
    return heads, tails, values[0] if values else None
