"""Writing lists of keys into the leaves of a packed memory array on CUDA."""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import THREADS, cuda, device, kernel
from dynstore._cuda.grid import d_sync_grid
from dynstore._cuda.leaf_merge import d_merge_leaf, d_take_shown
from dynstore._cuda.leaves import d_write_edge_rows, d_write_far_rows, d_write_rows_by_warp
from dynstore._cuda.tiles import BOARD
from dynstore._cuda.unsorted_layout import (
    END,
    FIRST,
    GIANT,
    HEAD,
    HIGH,
    LISTED,
    LOW,
    MAX_HEIGHT,
    PLACES,
    POSITIONS,
    REVIVED,
    WIDE,
    WIDE_WINDOWS,
    d_fits,
    d_node_height,
)
from dynstore._cuda.unsorted_merging import d_merge_giant, d_merge_window
from dynstore._cuda.warp import d_ballot, d_lane, d_shuffle
from dynstore.slots import DEAD

__all__ = ["k_write_leaves", "k_write_windows"]

MAX_ENDS = (1 << MAX_HEIGHT) + 1
MAX_SLOTS = 32 << MAX_HEIGHT


@device
def d_revive_keys(valid, positions, states, num_rows, lists, nodes, top):
    """Threads stride over the batch's rows: a dead key in no window gets its bit back (atomic or).

    Those in windows are merged as edges, because their bits are among the marks.
    """
    for i in range(cuda.grid(1), num_rows, cuda.gridsize(1)):
        if states[i] == DEAD:
            slot = positions[i]
            leaf = slot >> 5
            if lists[leaf, HEAD] == 0 and d_node_height(nodes, leaf, top) == 0:
                cuda.atomic.or_(valid, leaf, np.uint32(1) << np.uint32(slot & 31))


@kernel
def k_write_leaves(src, dst, valid, offsets, marks, table, pairs, control, far_rows, most_new, most_leaves):
    """One warp owns one window, and merges that of one leaf in registers; see ``k_merge_leaves``.

    Nothing where the update comes to more new edges or leaves than so many, as in ``k_write_windows``. A leaf whose
    first and last row stay what they were gives up its window: nothing is to be done at its edges.
    """
    origin = cuda.shared.array(THREADS, np.int32)
    first, end, low, high, places = table[FIRST], table[END], table[LOW], table[HIGH], table[PLACES]
    new_src, new_dst = pairs[0], pairs[1]
    lane, window = np.uint32(d_lane()), np.uint32(np.uint32(cuda.grid(1)) >> np.uint32(5))
    if window >= np.uint32(first.shape[0]):
        return
    # What an idle warp reads here is undefined. The same in all lanes.
    leaf, size = np.uint32(first[window]), np.int64(end[window]) - np.int64(first[window])
    fitting = d_fits(control, most_new, most_leaves)
    if np.int64(window) >= control[LISTED] or not fitting or size != 1:
        return
    begin, base = np.uint32(low[window]), np.uint32(leaf << np.uint32(5))
    num_keys = np.int32(np.uint32(high[window]) - begin)
    slot = np.uint32(base + lane)
    word, row, column = np.uint32(valid[leaf] | marks[leaf]), src[slot], dst[slot]
    place, key_row, key_column = np.int32(64), row, column
    if np.int32(lane) < num_keys:
        key = np.uint32(begin + lane)
        place, key_row, key_column = np.int32(np.uint32(places[key]) - base), new_src[key], new_dst[key]
    source, shown = d_merge_leaf(origin, word, place, num_keys)
    new_row = d_take_shown(source, row, key_row)
    src[slot] = new_row
    dst[slot] = d_take_shown(source, column, key_column)
    moved = d_ballot(new_row != row)
    if lane == 0:
        valid[leaf] = shown
        if moved & np.uint32(0x80000001) == 0:
            end[window] = leaf
    row_before = d_shuffle(new_row, np.int32(lane) - 1)
    d_write_rows_by_warp(
        offsets, np.int64(row_before if lane > 0 else new_row), np.int64(new_row), np.int64(slot), far_rows
    )


@kernel
def k_write_windows(
    src, dst, valid, offsets, marks, nodes, table, lists, states, pairs, scratch, control, far_rows, num_rows, top,
    most_new, most_leaves,
):  # fmt: skip
    """All blocks merge a giant, then each block other windows of several leaves; then the rows at all windows' edges.

    Those of long ranges come last; a grid-wide wait before each of the two.
    """
    values = cuda.shared.array(MAX_SLOTS, np.int32)
    before = cuda.shared.array(MAX_ENDS, np.int32)
    board = cuda.shared.array(BOARD, np.int64)
    if not d_fits(control, most_new, most_leaves):  # the same in all threads
        return
    giants = control[GIANT]
    for i in range(giants):
        window = table[WIDE_WINDOWS, table.shape[1] - 1 - i]
        d_merge_giant(
            src, dst, valid, offsets, marks, table, lists, pairs, window, scratch, before, board, control, far_rows,
            2 * i,
        )  # fmt: skip
    for i in range(cuda.blockIdx.x, control[WIDE], cuda.gridDim.x):
        window = table[WIDE_WINDOWS, i]
        d_merge_window(src, dst, valid, offsets, marks, table, lists, pairs, window, values, before, far_rows)
    if control[REVIVED] > 0:
        d_revive_keys(valid, table[POSITIONS], states, num_rows, lists, nodes, top)
    d_sync_grid(far_rows, 2 * giants + 1)
    d_write_edge_rows(src, offsets, table[FIRST], table[END], control[LISTED], far_rows)
    d_write_far_rows(offsets, far_rows, 2 * giants + 2)
