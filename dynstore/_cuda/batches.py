"""Checking and sorting a raw batch on CUDA: few launches, one small read-back each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import cuda, device, kernel
from dynstore._cuda.warp import d_lane, d_max_lanes, d_min_lanes
from dynstore.arrays import as_signed
from dynstore.edge_batch import EdgeBatch, RawEdges

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["d_count_rows", "d_leave_bounds", "d_read_edge", "d_read_row", "find_bounds", "make_pairs"]


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
    """Return source and destination of a row, and whether there is one, of vertices; else the source has no edges."""
    row, column = d_read_row(edge_src, edge_dst, mirrored, min(np.int64(i), num_rows - 1))
    known = (np.int64(i) < num_rows) & (min(row, column) >= 0) & (max(row, column) < num_vertices)
    return np.int32(row if known else num_vertices), np.int32(column), known


@device
def d_count_rows(edge_src, mirrored):
    """Return how many rows there are, mirror images included."""
    num_edges = np.int64(edge_src.shape[0])
    return 2 * num_edges if mirrored else num_edges


@device
def d_leave_bounds(bounds, low_first, high_first, low_second, high_second):
    """Merge what the warp's lanes saw; the first lane puts it to the whole (atomic min, max).

    The plain read only saves atomics, all of which are on the same four words: what it may miss is a bound that has
    gone further meanwhile.
    """
    low_first, high_first = d_min_lanes(low_first), d_max_lanes(high_first)
    low_second, high_second = d_min_lanes(low_second), d_max_lanes(high_second)
    if d_lane() == 0:
        if low_first < bounds[0]:
            cuda.atomic.min(bounds, 0, low_first)
        if high_first > bounds[1]:
            cuda.atomic.max(bounds, 1, high_first)
        if low_second < bounds[2]:
            cuda.atomic.min(bounds, 2, low_second)
        if high_second > bounds[3]:
            cuda.atomic.max(bounds, 3, high_second)


@kernel
def k_find_bounds(first, second, bounds):
    """Threads stride over two columns; ``bounds``: the lowest and the highest value of each, from zeros."""
    i = np.int64(cuda.grid(1))
    low_first, high_first, low_second, high_second = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while i < max(first.shape[0], second.shape[0]):
        if i < first.shape[0]:
            low_first = min(low_first, np.int64(first[i]))
            high_first = max(high_first, np.int64(first[i]))
        if i < second.shape[0]:
            low_second = min(low_second, np.int64(second[i]))
            high_second = max(high_second, np.int64(second[i]))
        i += cuda.gridsize(1)
    d_leave_bounds(bounds, low_first, high_first, low_second, high_second)


def find_bounds(backend: Backend, first: Array, second: Array) -> tuple[int, int, int, int]:
    """Return the lowest and highest of each of two integer columns, where 0 is always counted as there."""
    columns = [backend.xp.ascontiguousarray(as_signed(backend, column)) for column in (first, second)]
    bounds = backend.zeros(4, np.int64)
    k_find_bounds.launch_strided(max(first.shape[0], second.shape[0]), *columns, bounds)
    low_first, high_first, low_second, high_second = backend.to_host(bounds).tolist()
    return low_first, high_first, low_second, high_second


def make_pairs(backend: Backend, src: Array, dst: Array, mirrored: bool) -> EdgeBatch:
    """Return int32 edges as a batch that is sorted when that is needed; ``mirrored``: in both directions."""
    return RawEdges(backend, src, dst, mirrored)
