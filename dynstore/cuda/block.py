"""Sums and ranks over the threads of a warp or a block. Precondition of each: all of these threads call it."""

from __future__ import annotations

import numpy as np

from dynstore.cuda.compiler import cuda, device
from dynstore.cuda.warp import d_ballot, d_count_lower, d_lane, d_scan_lanes_64, d_shuffle, d_sum_lanes

__all__ = ["BOARD", "d_claim", "d_claim_many", "d_claim_two", "d_scan_tile", "d_scan_two", "d_sum_block"]

# Entries of the shared int64 array that a block of at most 1024 threads needs as its ``board``.
BOARD = 32


@device
def d_claim(counter, index, wanted):
    """Claim a place for each thread with ``wanted``, in a list of ``counter[index]`` items; return this thread's place.

    One atomic add a warp; the order of warps is arbitrary.
    """
    lane, word = d_lane(), d_ballot(wanted)
    start = np.int64(0)
    if lane == 0 and word != 0:
        start = np.int64(cuda.atomic.add(counter, index, np.int64(cuda.popc(word))))
    return d_shuffle(start, 0) + d_count_lower(word, lane)


@device
def d_claim_two(counter, index, wanted, other_wanted):
    """Claim two places as ``d_claim`` does, with one atomic add a warp for both."""
    lane, word, other_word = d_lane(), d_ballot(wanted), d_ballot(other_wanted)
    start, count = np.int64(0), np.int64(cuda.popc(word))
    if lane == 0 and word | other_word != 0:
        start = np.int64(cuda.atomic.add(counter, index, count + np.int64(cuda.popc(other_word))))
    start = d_shuffle(start, 0)
    return start + d_count_lower(word, lane), start + count + d_count_lower(other_word, lane)


@device
def d_claim_many(counter, index, count):
    """Claim ``count`` places in a list of ``counter[index]`` items; return this thread's first place, int64.

    One atomic add a warp; the order of warps is arbitrary.
    """
    lane, before = d_lane(), d_scan_lanes_64(count)
    start = np.int64(0)
    if lane == 31 and before != 0:
        start = np.int64(cuda.atomic.add(counter, index, before))
    return d_shuffle(start, 31) + before - np.int64(count)


@device
def d_scan_tile(value, board):
    """Return two sums of ``value``: over the block's threads before this one, and over all its threads."""
    lane, warp = d_lane(), cuda.threadIdx.x >> 5
    before = d_scan_lanes_64(value)
    cuda.syncthreads()  # all reads of the board are done
    if lane == 31:
        board[warp] = before
    cuda.syncthreads()
    before -= np.int64(value)
    total = np.int64(0)
    for other_warp in range(cuda.blockDim.x >> 5):
        if other_warp == warp:
            before += total
        total += board[other_warp]
    return before, total


@device
def d_scan_two(value, other, board):
    """Return both sums of ``d_scan_tile`` for each of two values; the sums must fit 31 bits."""
    before, total = d_scan_tile((np.int64(other) << 32) | np.int64(value), board)
    return before & 0x7FFFFFFF, total & 0x7FFFFFFF, before >> 32, total >> 32


@device
def d_sum_block(value, board):
    """Return the sum of ``value`` over the threads of the block."""
    total = d_sum_lanes(np.int64(value))
    cuda.syncthreads()  # all reads of the board are done
    if d_lane() == 0:
        board[cuda.threadIdx.x >> 5] = total
    cuda.syncthreads()
    total = np.int64(0)
    for warp in range(cuda.blockDim.x >> 5):
        total += board[warp]
    return total
