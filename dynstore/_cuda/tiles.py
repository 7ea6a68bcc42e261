"""Compaction in two launches: each block counts its tile of keys, then each block ranks it.

A block of the second launch sums the counts of the groups and tiles before it itself, so there is no scan between the
two, and what it counts never has to be known on the host. Precondition of each: all threads of the block call it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import THREADS, cuda, device
from dynstore._cuda.warp import d_ballot, d_lane, d_shuffle, d_sum_lanes

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = [
    "BOARD",
    "d_claim",
    "d_count_block",
    "d_scan_block",
    "d_sum_block",
    "d_sum_tiles_before",
    "d_tally",
    "make_tallies",
]

# Entries of the shared int64 array that a block of at most 1024 threads needs as its ``board``.
BOARD = 32
# Kinds of keys that are counted apart, and how many tiles make a group: a block sums the groups before its own.
ROWS, GROUP_BITS = 3, 10


@device
def d_claim(counter, index, wanted):
    """Return this thread's place in a list that ``counter[index]`` items are in, which grows by those wanted.

    One atomic add a warp; the order of warps is open.
    """
    lane, word = d_lane(), d_ballot(wanted)
    start = np.int64(0)
    if lane == 0 and word != 0:
        start = np.int64(cuda.atomic.add(counter, index, np.int64(cuda.popc(word))))
    below = (np.uint32(1) << np.uint32(lane)) - np.uint32(1)
    return d_shuffle(start, 0) + np.int64(cuda.popc(word & below))


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
def d_add_warps(total, board):
    """Return the sum of the warps' totals; ``total`` is the same in all lanes of a warp."""
    cuda.syncthreads()  # the board's last readers are done
    if d_lane() == 0:
        board[cuda.threadIdx.x >> 5] = total
    cuda.syncthreads()
    total = np.int64(0)
    for warp in range(cuda.blockDim.x >> 5):
        total += board[warp]
    return total


@device
def d_sum_block(value, board):
    """Return the sum of ``value`` over the threads of the block."""
    return d_add_warps(d_sum_lanes(np.int64(value)), board)


@device
def d_count_block(predicate, board):
    """Return how many threads of the block passed a true predicate.

    By ballots: ``cuda.syncthreads_count`` never returned on an H200 where part of a warp had branched before it.
    """
    return d_add_warps(np.int64(cuda.popc(d_ballot(predicate))), board)


@device
def d_tally(tallies, row, count):
    """Write the block's count to its row of ``tallies``, and add it to its group's; one thread a block calls it."""
    tile, row_size = cuda.blockIdx.x, tallies.shape[0] // ROWS
    tallies[row * row_size + tile] = count
    cuda.atomic.add(tallies, row * row_size + cuda.gridDim.x + (tile >> GROUP_BITS), count)


@device
def d_sum_tiles_before(tallies, row, board):
    """Return the sum of the counts of the tiles before the block's in one row of ``tallies``."""
    tile, begin = cuda.blockIdx.x, row * (tallies.shape[0] // ROWS)
    group = tile >> GROUP_BITS
    part, other = np.int64(0), np.int64(cuda.threadIdx.x)
    while other < group:
        part += tallies[begin + cuda.gridDim.x + other]
        other += cuda.blockDim.x
    other = (group << GROUP_BITS) + cuda.threadIdx.x
    while other < tile:
        part += tallies[begin + other]
        other += cuda.blockDim.x
    return d_sum_block(part, board)


def make_tallies(backend: Backend, num_keys: int) -> Array:
    """Return counts for the tiles of so many keys, a thread a key, and for groups of tiles; int64, all 0."""
    tiles = -(-num_keys // THREADS)
    return backend.zeros(ROWS * (tiles + (tiles >> GROUP_BITS) + 1), np.int64)
