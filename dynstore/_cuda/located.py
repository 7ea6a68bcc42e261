"""Finding a batch's keys in a packed memory array on CUDA, and listing those that an update is about."""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import cuda, kernel
from dynstore._cuda.search import d_find_edge
from dynstore._cuda.tiles import BOARD, d_count_block, d_scan_block, d_sum_tiles_before, d_tally
from dynstore.slots import ABSENT, DEAD, PRESENT

__all__ = ["FOUND_LOOPS", "k_list_keys", "k_locate_keys"]

# Entry of a plan's record behind the counts of the three states.
FOUND_LOOPS = 3


@kernel
def k_locate_keys(offsets, dst, valid, num_vertices, edge_src, edge_dst, positions, states, tallies, record):
    """One thread owns one key: its lower bound inside its row, and what stands there; a block counts each state."""
    board = cuda.shared.array(BOARD, np.int64)
    i, count = cuda.grid(1), edge_src.shape[0]
    state, loop = -1, False
    if i < count:
        row = np.int64(edge_src[i])
        position, state = d_find_edge(offsets, dst, valid, num_vertices, row, edge_dst[i])
        positions[i] = position
        states[i] = state
        loop = state == PRESENT and row == edge_dst[i]
    num_loops = d_count_block(loop, board)
    for kind in (ABSENT, DEAD, PRESENT):
        number = d_count_block(state == kind, board)
        if cuda.threadIdx.x == 0:
            if number > 0:
                d_tally(tallies, kind, number)
                cuda.atomic.add(record, kind, number)
    if cuda.threadIdx.x == 0 and num_loops > 0:
        cuda.atomic.add(record, FOUND_LOOPS, num_loops)


@kernel
def k_list_keys(positions, states, tallies, inserting, block_counts, keys, places, leaves, dead_leaves):
    """One thread owns one key; those that change a leaf go to lists, in order.

    An insertion lists the absent keys (index, slot that they go before, leaf of the slot before that) and the leaves
    of dead ones; a deletion the leaves of present ones. ``block_counts`` becomes what it will be without the
    absent keys (atomic add).
    """
    board = cuda.shared.array(BOARD, np.int64)
    i = cuda.grid(1)
    state, position = np.int64(-1), np.int64(0)
    if i < positions.shape[0]:
        state, position = np.int64(states[i]), positions[i]
    listed = ABSENT if inserting else PRESENT
    rank = d_sum_tiles_before(tallies, listed, board)
    rank += d_scan_block(1 if state == listed else 0, board)
    if state == listed:
        if inserting:
            keys[rank] = i
            places[rank] = position
            leaves[rank] = max(position - 1, np.int64(0)) >> 5
        else:
            leaves[rank] = position >> 5
            cuda.atomic.add(block_counts, position >> 10, np.int64(-1))
    if inserting:
        rank = d_sum_tiles_before(tallies, DEAD, board)
        rank += d_scan_block(1 if state == DEAD else 0, board)
        if state == DEAD:
            dead_leaves[rank] = position >> 5
            cuda.atomic.add(block_counts, position >> 10, np.int64(1))
