"""Finding a batch's keys in a packed memory array on CUDA, and listing those that change a leaf.

Phases of one kernel, see ``dynstore/cuda/grid.py``: each block owns neighbouring keys.
"""

from __future__ import annotations

import numpy as np

from dynstore.cuda.block import d_scan_two
from dynstore.cuda.compiler import cuda, device
from dynstore.cuda.control import declare
from dynstore.cuda.grid import d_chunk, d_leave_sum, d_sum_blocks_before
from dynstore.stores.pma.cuda.windows import d_change_counts
from dynstore.stores.table.cuda.search import FOUND_EACH, d_find_edge, d_find_edges
from dynstore.stores.table.slots import ABSENT, PRESENT, TOMBSTONE
from dynstore.typing import MAX_INT32

__all__ = ["FOUND_LOOPS", "INVALID_ID", "d_list_keys", "d_locate_keys"]

# Entry of ``control`` behind those of the three states.
(FOUND_LOOPS,) = declare("sorted plan", ABSENT=ABSENT, TOMBSTONE=TOMBSTONE, PRESENT=PRESENT, FOUND_LOOPS=3)[3:]
# Behind those of windows and runs: whether some id is invalid.
(INVALID_ID,) = declare("sorted plan", INVALID_ID=10)


@device
def d_find_keys(slots, edge_src, edge_dst, first, end, positions, states, control):
    """Find what ``d_locate_keys`` finds for the keys [first, end), several a thread at a time.

    Precondition: vertices and slots are numbered by int32. For a destination beyond int32 another one is found, but the
    id is reported as invalid.
    """
    num_vertices = slots.num_vertices
    # These are registers.
    rows, found = cuda.local.array(FOUND_EACH, np.uint32), cuda.local.array(FOUND_EACH, np.uint32)
    ends, columns = cuda.local.array(FOUND_EACH, np.uint32), cuda.local.array(FOUND_EACH, np.int32)
    for base in range(first + cuda.threadIdx.x, end, FOUND_EACH * cuda.blockDim.x):
        for k in range(FOUND_EACH):
            at = min(base + k * cuda.blockDim.x, end - 1)  # the last one again, so that no read is behind a branch
            row, column = np.int64(edge_src[at]), np.int64(edge_dst[at])
            rows[k], columns[k] = np.uint32(row if 0 <= row < num_vertices else num_vertices), np.int32(column)
            if min(row, column) < 0 or max(row, column) >= num_vertices:
                control[INVALID_ID] = 1
        d_find_edges(slots.offsets, slots.dst, slots.valid, rows, columns, found, ends)
        for k in range(FOUND_EACH):
            i = base + k * cuda.blockDim.x
            if i < end:
                positions[i], states[i] = found[k], rows[k]


@device
def d_locate_keys(slots, edge_src, edge_dst, count, positions, states, control, board):
    """Find each key's lower bound inside its row, and the state there; leave the counts of each state.

    The ids need not be validated: ``control`` gets whether one is invalid.
    """
    num_vertices = slots.num_vertices
    first, end = d_chunk(count)
    absent, dead, present, loops = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    if max(np.int64(slots.dst.shape[0]), np.int64(num_vertices)) <= MAX_INT32:  # the same in all threads
        d_find_keys(slots, edge_src, edge_dst, first, end, positions, states, control)
    else:
        for i in range(first + cuda.threadIdx.x, end, cuda.blockDim.x):
            row, column = np.int64(edge_src[i]), np.int64(edge_dst[i])
            if min(row, column) < 0 or max(row, column) >= num_vertices:
                control[INVALID_ID] = 1
            positions[i], states[i] = d_find_edge(slots.offsets, slots.dst, slots.valid, num_vertices, row, column)
    for i in range(first + cuda.threadIdx.x, end, cuda.blockDim.x):  # what this thread has written
        state = states[i]
        absent += state == ABSENT
        dead += state == TOMBSTONE
        present += state == PRESENT
        loops += state == PRESENT and edge_src[i] == edge_dst[i]
    d_leave_sum(control, ABSENT, absent, board)
    d_leave_sum(control, TOMBSTONE, dead, board)
    d_leave_sum(control, PRESENT, present, board)
    d_leave_sum(control, FOUND_LOOPS, loops, board)


@device
def d_list_keys(positions, states, count, inserting, block_counts, lists, control, board):
    """List the keys that change a leaf, in order.

    An insertion lists the absent keys (index, slot that they go before, leaf of the slot before that) and the leaves of
    tombstones; a deletion lists the leaves of present keys. ``block_counts`` is updated for all but the absent
    keys (atomic add).
    """
    first, end = d_chunk(count)
    listed = ABSENT if inserting else PRESENT
    rank = d_sum_blocks_before(control, listed, board)
    dead_rank = d_sum_blocks_before(control, TOMBSTONE, board)
    some_change = control[TOMBSTONE if inserting else PRESENT] > 0  # the same in all threads
    base = first
    while base < end:
        i = base + cuda.threadIdx.x
        state, position = np.int64(-1), np.int64(0)
        if i < end:
            state, position = np.int64(states[i]), positions[i]
        if some_change:
            d_change_counts(
                block_counts, position, 1 if inserting else -1, state == (TOMBSTONE if inserting else PRESENT), control
            )
        before, total, dead_before, dead_total = d_scan_two(state == listed, state == TOMBSTONE, board)
        if state == listed:
            if inserting:
                lists.keys[rank + before] = i
                lists.places[rank + before] = position
                lists.leaves[rank + before] = max(position - 1, np.int64(0)) >> 5
            else:
                lists.leaves[rank + before] = position >> 5
        if inserting and state == TOMBSTONE:
            lists.tombstone_leaves[dead_rank + dead_before] = position >> 5
        rank += total
        dead_rank += dead_total
        base += cuda.blockDim.x
