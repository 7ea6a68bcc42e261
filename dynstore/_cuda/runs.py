"""Keeping each of sorted keys once on CUDA: one kernel and one small read-back, or a phase of another kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import cuda, device, kernel
from dynstore._cuda.grid import (
    CONTROL_SIZE,
    d_chunk,
    d_leave_sum,
    d_sum_blocks_before,
    d_sync_grid,
    read_totals,
)
from dynstore._cuda.tiles import BOARD, d_scan_tile

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["RUNS", "RUN_LOOPS", "d_count_runs", "d_keep_runs", "keep_distinct", "keep_pairs", "sort_keys"]

# Rows of the sums, behind those of a plan (``located``, ``windows``), of which this may be a phase.
RUNS, RUN_LOOPS = 8, 9


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
    d_leave_sum(control, RUN_LOOPS, loops, board)


@device
def d_keep_runs(keys, kept, src, dst, control, board):
    """Write the last of each run to its rank: to ``kept`` if that has room, else its halves to ``src`` and ``dst``.

    Blocks have counted their shares.
    """
    rank = d_sum_blocks_before(control, RUNS, board)
    base, end = d_chunk(np.int64(keys.shape[0]))
    while base < end:
        i = base + cuda.threadIdx.x
        ends = i < end and d_ends_run(keys, i)
        before, total = d_scan_tile(1 if ends else 0, board)
        if ends and kept.shape[0] > 0:
            kept[rank + before] = keys[i]
        elif ends:
            src[rank + before] = keys[i] >> 32
            dst[rank + before] = keys[i] & 0xFFFFFFFF
        rank += total
        base += cuda.blockDim.x


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
def k_keep_runs(keys, kept, src, dst, control):
    """Each of sorted keys is kept once, see ``d_keep_runs``; blocks count their share first, and wait."""
    board = cuda.shared.array(BOARD, np.int64)
    d_count_runs(keys, control, board)
    d_sync_grid(control, 1)
    d_keep_runs(keys, kept, src, dst, control, board)


def sort_keys(backend: Backend, src: Array, dst: Array, mirrored: bool) -> Array:
    """Return the sorted keys of int32 edges; int64, source in the high half; ``mirrored``: in both directions."""
    keys = backend.empty(int(src.shape[0]) * (2 if mirrored else 1), np.int64)
    k_pack_keys.launch(src.shape[0], src, dst, mirrored, keys)
    keys.sort()
    return keys


def keep_pairs(backend: Backend, keys: Array) -> tuple[Array, Array, int]:
    """Return the distinct ones of sorted keys, each a pair of int32 with the first in the high half.

    Returns
    -------
    first, second : array, shape (N,), int32
    num_loops : int
        How many of them have equal halves.
    """
    count = int(keys.shape[0])
    control, first, second = backend.empty_together(
        (CONTROL_SIZE, np.int64), (count, np.int32), (count, np.int32), zeroed=1
    )
    k_keep_runs.launch_resident(count, keys, backend.nothing(np.int64), first, second, control)
    totals = read_totals(backend, control)
    return first[: totals[RUNS]], second[: totals[RUNS]], totals[RUN_LOOPS]


def keep_distinct(backend: Backend, keys: Array) -> Array:
    """Sort int64 keys in place and return the distinct ones."""
    keys.sort()
    count = int(keys.shape[0])
    control, kept = backend.empty_together((CONTROL_SIZE, np.int64), (count, np.int64), zeroed=1)
    halves = backend.nothing(np.int32)
    k_keep_runs.launch_resident(count, keys, kept, halves, halves, control)
    return kept[: read_totals(backend, control)[RUNS]]
