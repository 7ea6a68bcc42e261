"""Writing lists of keys into the leaves of a packed memory array on CUDA."""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import THREADS, WARP, cuda, device, kernel
from dynstore._cuda.grid import d_sync_grid
from dynstore._cuda.leaf_merge import d_merge_leaf, d_take_shown
from dynstore._cuda.leaves import d_write_far_rows, d_write_rows_by_warp
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
    MOVED,
    NARROW,
    NARROW_HEIGHT,
    NARROW_WINDOWS,
    PLACES,
    POSITIONS,
    REVIVED,
    WIDE,
    WIDE_WINDOWS,
    d_fits,
    d_node_height,
)
from dynstore._cuda.unsorted_merging import NARROW_ENDS, d_merge_giant, d_merge_window
from dynstore._cuda.warp import d_ballot, d_lane, d_shuffle
from dynstore.slots import DEAD

__all__ = ["k_merge_wide", "k_write_leaves", "k_write_windows"]

# What a block needs of shared memory: for a window that it merges, or for a narrow one of each warp.
MAX_ENDS, MAX_SLOTS = (1 << MAX_HEIGHT) + 1, 32 << MAX_HEIGHT
ALL_NARROW_ENDS, ALL_NARROW_SLOTS = NARROW_ENDS * (THREADS // WARP), THREADS << NARROW_HEIGHT


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


@device
def d_read_window(table, window, is_listed):
    """Return leaf, first key and number of keys of a window of one leaf; 0 of all where it is none, or not listed."""
    item = np.uint32(min(window, np.uint32(table.shape[1] - 1)))  # what is read of one that is not listed is undefined
    leaf, end = np.int64(table[FIRST, item]), np.int64(table[END, item])
    begin, last = np.int64(table[LOW, item]), np.int64(table[HIGH, item])
    own = np.int64(is_listed & (end - leaf == 1))  # a factor, so that no branch holds up a read
    return np.uint32(leaf * own), np.uint32(begin * own), np.int32((last - begin) * own)


@device
def d_read_leaf(src, dst, valid, marks, table, pairs, leaf, begin, num_keys):
    """Return a leaf's word, the lane's slot of it, and the lane's key; a lane without one gets the first key."""
    lane = np.uint32(d_lane())
    slot, key = np.uint32(np.uint32(leaf << np.uint32(5)) + lane), np.uint32(begin)
    if np.int32(lane) < num_keys:
        key = np.uint32(begin + lane)
    word = np.uint32(valid[leaf] | marks[leaf])
    return word, src[slot], dst[slot], table[PLACES, key], pairs[0, key], pairs[1, key]


@device
def d_write_leaf(
    src, dst, valid, offsets, origin, leaf, num_keys, word, row, column, place, key_row, key_column, far_rows
):  # fmt: skip
    """Merge a leaf with its keys, as ``d_read_leaf`` returned them; return whether its first or last row changed."""
    lane, base = np.uint32(d_lane()), np.uint32(leaf << np.uint32(5))
    slot = np.uint32(base + lane)
    source, shown = d_merge_leaf(origin, word, np.int32(np.uint32(place) - base), num_keys)
    new_row = d_take_shown(source, row, key_row)
    src[slot] = new_row
    dst[slot] = d_take_shown(source, column, key_column)
    moved = d_ballot(new_row != row)
    if lane == 0:
        valid[leaf] = shown
    row_before = d_shuffle(new_row, np.int32(lane) - 1)
    d_write_rows_by_warp(
        offsets, np.int64(row_before if lane > 0 else new_row), np.int64(new_row), np.int64(slot), far_rows
    )
    return moved & np.uint32(0x80000001) != 0


@device
def d_note_moved(table, window, moved, control):
    """List a window if its leaf has ``moved``; one atomic add."""
    if moved and d_lane() == 0:
        table[NARROW_WINDOWS, control[NARROW] + cuda.atomic.add(control, MOVED, 1)] = window


@kernel
def k_write_leaves(src, dst, valid, offsets, marks, table, pairs, control, far_rows, most_new, most_leaves):
    """One warp owns two windows, and merges those of one leaf in registers; see ``k_merge_leaves``.

    It reads both before it merges the first, so that twice as many reads are on their way. Nothing where the update
    comes to more new edges or leaves than so many, as in ``k_write_windows``. Leaves whose first or last row changes go
    to a list: the rows at their edges are still to be written.
    """
    origin = cuda.shared.array(THREADS, np.int32)
    window = np.uint32(np.uint32(cuda.grid(1) >> 5) << np.uint32(1))
    following = np.uint32(window + np.uint32(1))
    # The same in all lanes.
    num_listed, fitting = control[LISTED], d_fits(control, most_new, most_leaves)
    leaf, begin, num_keys = d_read_window(table, window, fitting & (np.int64(window) < num_listed))
    next_leaf, next_begin, next_num_keys = d_read_window(table, following, fitting & (np.int64(following) < num_listed))
    if num_keys == 0:  # the second takes the place of the first, and is read twice
        window, leaf, begin, num_keys, next_num_keys = following, next_leaf, next_begin, next_num_keys, np.int32(0)
    if num_keys == 0:
        return
    word, row, column, place, key_row, key_column = d_read_leaf(
        src, dst, valid, marks, table, pairs, leaf, begin, num_keys
    )
    next_word, next_row, next_column, next_place, next_key_row, next_key_column = d_read_leaf(
        src, dst, valid, marks, table, pairs, next_leaf, next_begin, next_num_keys
    )
    moved = d_write_leaf(
        src, dst, valid, offsets, origin, leaf, num_keys, word, row, column, place, key_row, key_column, far_rows
    )
    d_note_moved(table, window, moved, control)
    if next_num_keys > 0:
        moved = d_write_leaf(
            src, dst, valid, offsets, origin, next_leaf, next_num_keys, next_word, next_row, next_column, next_place,
            next_key_row, next_key_column, far_rows,
        )  # fmt: skip
        d_note_moved(table, following, moved, control)


@kernel
def k_merge_wide(
    src, dst, valid, offsets, marks, table, lists, pairs, scratch, control, far_rows, most_new, most_leaves
):
    """Blocks merge windows that are too wide for a warp; then all together those that are too wide for one, in turn.

    Nothing as in ``k_write_leaves``. A kernel of its own, because ``k_write_windows`` does with fewer registers.
    """
    values = cuda.shared.array(MAX_SLOTS, np.int32)
    before = cuda.shared.array(MAX_ENDS, np.int32)
    board = cuda.shared.array(BOARD, np.int64)
    if control[WIDE] + control[GIANT] == 0 or not d_fits(control, most_new, most_leaves):  # the same in all threads
        return
    for i in range(cuda.blockIdx.x, control[WIDE], cuda.gridDim.x):
        window = table[WIDE_WINDOWS, i]
        d_merge_window(src, dst, valid, offsets, marks, table, lists, pairs, window, values, before, far_rows, THREADS)
    for i in range(control[GIANT]):
        window = table[WIDE_WINDOWS, table.shape[1] - 1 - i]
        d_merge_giant(
            src, dst, valid, offsets, marks, table, lists, pairs, window, scratch, before, board, control, far_rows,
            2 * i,
        )  # fmt: skip


@device
def d_write_edge_rows(src, offsets, table, control, far_rows):
    """Two lanes own a window of several leaves, or a leaf that has moved, one each edge: the rows that begin there.

    Both windows at an edge between two write the same.
    """
    lane, room, giants = d_lane(), table.shape[1], control[GIANT]
    several = giants + control[WIDE]
    for base in range(cuda.grid(1) - lane, 2 * (several + control[NARROW] + control[MOVED]), cuda.gridsize(1)):
        item, low, high, slot = (base + lane) >> 1, np.int64(0), np.int64(0), np.int64(0)
        if item < several + control[NARROW] + control[MOVED]:
            if item < several:
                window = table[WIDE_WINDOWS, room - 1 - item if item < giants else item - giants]
            else:
                window = table[NARROW_WINDOWS, item - several]
            slot = np.int64(table[END if lane & 1 else FIRST, window]) * 32
            low = np.int64(src[slot - 1]) if slot > 0 else np.int64(-1)
            high = np.int64(src[slot]) if slot < src.shape[0] else np.int64(offsets.shape[0] - 1)
        d_write_rows_by_warp(offsets, low, high, slot, far_rows)


@kernel
def k_write_windows(
    src, dst, valid, offsets, marks, nodes, table, lists, states, pairs, control, far_rows, num_rows, top, most_new,
    most_leaves,
):  # fmt: skip
    """Warps merge narrow windows; then the rows at all windows' edges, and those of long ranges, are written.

    A grid-wide wait before each of the two.
    """
    values = cuda.shared.array(ALL_NARROW_SLOTS, np.int32)
    before = cuda.shared.array(ALL_NARROW_ENDS, np.int32)
    if not d_fits(control, most_new, most_leaves):  # the same in all threads
        return
    for i in range(cuda.grid(1) >> 5, control[NARROW], cuda.gridsize(1) >> 5):
        window = table[NARROW_WINDOWS, i]
        d_merge_window(src, dst, valid, offsets, marks, table, lists, pairs, window, values, before, far_rows, WARP)
    if control[REVIVED] > 0:
        d_revive_keys(valid, table[POSITIONS], states, num_rows, lists, nodes, top)
    d_sync_grid(far_rows, 1)
    d_write_edge_rows(src, offsets, table, control, far_rows)
    d_write_far_rows(offsets, far_rows, 2)
