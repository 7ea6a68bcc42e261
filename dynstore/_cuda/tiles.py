"""Compaction in two launches: each block counts its tile of keys, then each block ranks it.

A block of the second launch sums the counts of the tiles before it itself, so there is no scan between the two, and
what it counts never has to be known on the host. Precondition of each: all threads of the block call it.
"""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import cuda, device
from dynstore._cuda.warp import d_lane, d_shuffle, d_sum_lanes

__all__ = ["BOARD", "d_count_block", "d_scan_block", "d_sum_block", "d_sum_tiles_before"]

# Entries of the shared int64 array that a block of at most 1024 threads needs as its ``board``.
BOARD = 32


@device
def d_count_block(predicate):
    """Return how many threads of the block passed a true predicate."""
    return np.int64(cuda.syncthreads_count(np.int32(1 if predicate else 0)))


@device
def d_scan_block(value, board):
    """Return the sum of ``value`` over the threads of the block before this one."""
    lane, warp = d_lane(), cuda.threadIdx.x >> 5
    total = np.int64(value)
    for step in (1, 2, 4, 8, 16):
        other = d_shuffle(total, (lane - step) & 31)
        if lane >= step:
            total += other
    cuda.syncthreads()  # the board's last readers are done
    if lane == 31:
        board[warp] = total
    cuda.syncthreads()
    before = total - np.int64(value)
    for other_warp in range(warp):
        before += board[other_warp]
    return before


@device
def d_sum_block(value, board):
    """Return the sum of ``value`` over the threads of the block."""
    total = d_sum_lanes(np.int64(value))
    cuda.syncthreads()
    if d_lane() == 0:
        board[cuda.threadIdx.x >> 5] = total
    cuda.syncthreads()
    total = np.int64(0)
    for warp in range(cuda.blockDim.x >> 5):
        total += board[warp]
    return total


@device
def d_sum_tiles_before(tallies, row, tile, num_tiles, board):
    """Return the sum of the counts of the tiles before ``tile`` in one row of ``tallies``."""
    part = np.int64(0)
    other = np.int64(cuda.threadIdx.x)
    while other < tile:
        part += tallies[row * num_tiles + other]
        other += cuda.blockDim.x
    return d_sum_block(part, board)
