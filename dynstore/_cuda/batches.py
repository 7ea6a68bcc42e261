"""Checking and sorting a raw batch on CUDA: few launches, one small read-back each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import cuda, device, kernel
from dynstore._cuda.grid import (
    d_chunk,
    d_leave_sum,
    d_sum_blocks_before,
    d_sync_grid,
    make_control,
    read_record,
)
from dynstore._cuda.tiles import BOARD, d_scan_tile
from dynstore._cuda.warp import d_lane, d_shuffle

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["as_signed", "find_bounds", "keep_distinct", "sort_pairs"]

# Rows of the sums of a kernel over sorted keys.
RUNS, LOOPS = 0, 1


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


@device
def d_ends_run(keys, i):
    """Return whether a sorted key is the last of its run."""
    return i + 1 == keys.shape[0] or keys[i + 1] != keys[i]


@device
def d_count_runs(keys, control, board):
    """Leave how many runs end in the block's share of sorted keys, and how many of them are self-loops."""
    first, end = d_chunk(np.int64(keys.shape[0]))
    runs, loops = np.int64(0), np.int64(0)
    for i in range(first + cuda.threadIdx.x, end, cuda.blockDim.x):
        if d_ends_run(keys, i):
            runs += 1
            loops += (keys[i] >> 32) == (keys[i] & 0xFFFFFFFF)
    d_leave_sum(control, RUNS, runs, board)
    d_leave_sum(control, LOOPS, loops, board)


@kernel
def k_keep_pairs(keys, src, dst, control):
    """The last of each run of sorted keys is unpacked to its rank; blocks count their share first, and wait."""
    board = cuda.shared.array(BOARD, np.int64)
    d_count_runs(keys, control, board)
    d_sync_grid(control, 1)
    rank = d_sum_blocks_before(control, RUNS, board)
    base, end = d_chunk(np.int64(keys.shape[0]))
    while base < end:
        i = base + cuda.threadIdx.x
        ends = i < end and d_ends_run(keys, i)
        before, total = d_scan_tile(1 if ends else 0, board)
        if ends:
            src[rank + before] = keys[i] >> 32
            dst[rank + before] = keys[i] & 0xFFFFFFFF
        rank += total
        base += cuda.blockDim.x


@kernel
def k_keep_keys(keys, kept, control):
    """The last of each run of sorted keys is written to its rank; blocks count their share first, and wait."""
    board = cuda.shared.array(BOARD, np.int64)
    d_count_runs(keys, control, board)
    d_sync_grid(control, 1)
    rank = d_sum_blocks_before(control, RUNS, board)
    base, end = d_chunk(np.int64(keys.shape[0]))
    while base < end:
        i = base + cuda.threadIdx.x
        ends = i < end and d_ends_run(keys, i)
        before, total = d_scan_tile(1 if ends else 0, board)
        if ends:
            kept[rank + before] = keys[i]
        rank += total
        base += cuda.blockDim.x


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
    room = backend.empty(2 * count, np.int32)
    out_src, out_dst, control = room[:count], room[count:], make_control(backend, 2)
    k_keep_pairs.launch_resident(count, keys, out_src, out_dst, control)
    num_edges, num_loops = read_record(backend, control)[:2]
    return out_src[:num_edges], out_dst[:num_edges], num_loops


def keep_distinct(backend: Backend, keys: Array) -> Array:
    """Sort int64 keys in place and return the distinct ones."""
    keys.sort()
    kept, control = backend.empty(keys.shape[0], np.int64), make_control(backend, 2)
    k_keep_keys.launch_resident(keys.shape[0], keys, kept, control)
    return kept[: read_record(backend, control)[RUNS]]
