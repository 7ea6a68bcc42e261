"""Checking and sorting a raw batch on CUDA: few launches, one small read-back each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import cuda, kernel
from dynstore._cuda.tiles import BOARD, d_count_block, d_scan_block, d_sum_tiles_before, d_tally, make_tallies
from dynstore._cuda.warp import d_lane, d_shuffle

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["as_signed", "find_bounds", "k_tally_run_ends", "sort_pairs"]


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


@kernel
def k_tally_run_ends(keys, tallies, record):
    """One thread owns one sorted key; a block counts the last of each run, and the self-loops among them (atomic)."""
    board = cuda.shared.array(BOARD, np.int64)
    i, count = cuda.grid(1), keys.shape[0]
    ends, loops = False, False
    if i < count:
        key = keys[i]
        ends = i + 1 == count or keys[i + 1] != key
        loops = ends and (key >> 32) == (key & 0xFFFFFFFF)
    num_ends, num_loops = d_count_block(ends, board), d_count_block(loops, board)
    if cuda.threadIdx.x == 0:
        d_tally(tallies, 0, num_ends)
        cuda.atomic.add(record, 0, num_ends)
        cuda.atomic.add(record, 1, num_loops)


@kernel
def k_keep_run_ends(keys, tallies, src, dst):
    """One thread owns one sorted key; the last of each run is unpacked to its rank."""
    board = cuda.shared.array(BOARD, np.int64)
    i, count = cuda.grid(1), keys.shape[0]
    ends = i < count and (i + 1 == count or keys[i + 1] != keys[i])
    rank = d_sum_tiles_before(tallies, 0, board)
    rank += d_scan_block(1 if ends else 0, board)
    if ends:
        src[rank] = keys[i] >> 32
        dst[rank] = keys[i] & 0xFFFFFFFF


def find_bounds(backend: Backend, first: Array, second: Array) -> tuple[int, int, int, int]:
    """Return the lowest and highest of each of two integer columns, where 0 is always counted as there."""
    columns = [backend.xp.ascontiguousarray(as_signed(backend, column)) for column in (first, second)]
    bounds = backend.zeros(4, np.int64)
    k_find_bounds.launch_strided(max(first.shape[0], second.shape[0]), *columns, bounds)
    low_first, high_first, low_second, high_second = backend.to_host(bounds).tolist()
    return low_first, high_first, low_second, high_second


def as_signed(backend: Backend, column: Array) -> Array:
    """Return a column of integers that int64 holds; what it does not hold becomes its largest."""
    if column.dtype != np.uint64:
        return column
    return backend.xp.minimum(column, np.uint64(np.iinfo(np.int64).max)).astype(np.int64)


def sort_pairs(backend: Backend, src: Array, dst: Array, mirrored: bool) -> tuple[Array, Array, int]:
    """Sort int32 edges by (src, dst) and keep each once; ``mirrored``: in both directions, self-loops once.

    Returns
    -------
    src, dst : array, shape (B,), int32
    num_loops : int
    """
    count = int(src.shape[0]) * (2 if mirrored else 1)
    keys = backend.empty(count, np.int64)
    k_pack_keys.launch(src.shape[0], src, dst, mirrored, keys)
    keys.sort()
    tallies, record = make_tallies(backend, count), backend.zeros(2, np.int64)
    out_src, out_dst = backend.empty(count, np.int32), backend.empty(count, np.int32)
    k_tally_run_ends.launch(count, keys, tallies, record)
    k_keep_run_ends.launch(count, keys, tallies, out_src, out_dst)
    num_edges, num_loops = backend.to_host(record).tolist()
    return out_src[:num_edges], out_dst[:num_edges], num_loops
