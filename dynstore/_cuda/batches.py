"""Checking and sorting a raw batch on CUDA: few launches, one small read-back each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import cuda, kernel
from dynstore._cuda.runs import as_signed, keep_pairs
from dynstore._cuda.warp import d_lane, d_shuffle
from dynstore.edge_batch import EdgeBatch, SortedKeys

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["find_bounds", "sort_pairs"]


@kernel
def k_find_bounds(first, second, bounds):
    """Threads stride over two columns; a warp merges what it saw, and its first lane the whole (atomic min, max).

    ``bounds``: the lowest and the highest value of each column, from zeros.
    """
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
    for step in (16, 8, 4, 2, 1):
        lane = d_lane() ^ step
        low_first = min(low_first, d_shuffle(low_first, lane))
        high_first = max(high_first, d_shuffle(high_first, lane))
        low_second = min(low_second, d_shuffle(low_second, lane))
        high_second = max(high_second, d_shuffle(high_second, lane))
    if d_lane() == 0:
        cuda.atomic.min(bounds, 0, low_first)
        cuda.atomic.max(bounds, 1, high_first)
        cuda.atomic.min(bounds, 2, low_second)
        cuda.atomic.max(bounds, 3, high_second)


@kernel
def k_pack_keys(src, dst, mirrored, keys):
    """One thread owns one edge: its key, source in the high half; with ``mirrored`` that of its mirror image, too."""
    i = cuda.grid(1)
    if i < src.shape[0]:
        row, column = np.int64(src[i]), np.int64(dst[i])
        keys[i] = (row << 32) | column
        if mirrored:
            keys[src.shape[0] + i] = (column << 32) | row


def find_bounds(backend: Backend, first: Array, second: Array) -> tuple[int, int, int, int]:
    """Return the lowest and highest of each of two integer columns, where 0 is always counted as there."""
    columns = [backend.xp.ascontiguousarray(as_signed(backend, column)) for column in (first, second)]
    bounds = backend.zeros(4, np.int64)
    k_find_bounds.launch_strided(max(first.shape[0], second.shape[0]), *columns, bounds)
    low_first, high_first, low_second, high_second = backend.to_host(bounds).tolist()
    return low_first, high_first, low_second, high_second


def sort_pairs(backend: Backend, src: Array, dst: Array, mirrored: bool) -> EdgeBatch:
    """Sort int32 edges by (src, dst); ``mirrored``: in both directions. A plan keeps each once."""
    count = int(src.shape[0]) * (2 if mirrored else 1)
    keys = backend.empty(count, np.int64)
    k_pack_keys.launch(src.shape[0], src, dst, mirrored, keys)
    keys.sort()
    return SortedKeys(keys, partial(keep_pairs, backend), mirrored)
