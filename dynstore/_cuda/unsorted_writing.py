"""Writing lists of keys into the leaves of a packed memory array on CUDA."""

from __future__ import annotations

from functools import partial

import numpy as np

from dynstore._cuda.compiler import SIMULATED, THREADS, WARP, cuda, device, kernel
from dynstore._cuda.grid import d_sync_grid
from dynstore._cuda.leaves import d_write_far_rows, d_write_rows_by_warp
from dynstore._cuda.shifting import d_move_place, d_shift_in, d_write_leaf_rows
from dynstore._cuda.tiles import BOARD, d_claim
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
    SOURCES,
    TAKEN,
    TARGETS,
    WIDE,
    WIDE_WINDOWS,
    d_fits,
    d_node_height,
)
from dynstore._cuda.unsorted_merging import NARROW_ENDS, d_merge_giant, d_merge_window
from dynstore._cuda.warp import d_lane, d_shuffle
from dynstore.slots import DEAD

__all__ = [
    "ALL_NARROW_ENDS",
    "ALL_NARROW_SLOTS",
    "d_write_leaves",
    "d_write_windows",
    "k_merge_wide",
    "k_write_leaves",
    "k_write_windows",
]

# What a block needs of shared memory: for a window that it merges, or for a narrow one of each warp.
MAX_ENDS, MAX_SLOTS = (1 << MAX_HEIGHT) + 1, 32 << MAX_HEIGHT
ALL_NARROW_ENDS, ALL_NARROW_SLOTS = NARROW_ENDS * (THREADS // WARP), THREADS << NARROW_HEIGHT
# Four blocks of ``k_write_windows`` on a multiprocessor in place of three, one of ``k_merge_wide``. There is mostly one
# wide window, whose leaves each warp of a block merges one after the other: a block has as many threads as it can.
MAX_REGISTERS = 64
WIDE_THREADS = WARP if SIMULATED else 1024


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
    return np.int32(leaf * own), np.int32(begin * own), np.int32((last - begin) * own)


@device
def d_write_leaf(src, dst, valid, offsets, marks, pairs, leaf, begin, num_keys, far_rows):
    """A thread puts a leaf's keys, ascending, into it; returns whether its first or last row has changed."""
    places, new_src, new_dst = pairs[PLACES], pairs[SOURCES], pairs[TARGETS]
    base, word = np.uint64(leaf) << np.uint64(5), np.uint32(valid[leaf] | marks[leaf])
    filled, changed = np.uint32(0), np.uint32(0)
    for key in range(np.uint32(begin), np.uint32(begin + num_keys)):
        place = d_move_place(np.int32(np.uint64(places[key]) - base), filled)
        gap, changed = d_shift_in(src, dst, dst, False, base, word, place, new_src[key], new_dst[key], 0, changed)
        word = np.uint32(word | np.uint32(1) << np.uint32(gap))
        if gap >= place:
            filled = np.uint32(filled | np.uint32(1) << np.uint32(gap))
    valid[leaf] = word
    return d_write_leaf_rows(src, offsets, base, changed, far_rows)


@device
def d_write_leaves(src, dst, valid, offsets, marks, table, pairs, control, far_rows, window, may_write):
    """Each thread puts the keys of a window that is one leaf into it. All lanes of the warp call.

    None where not ``may_write``. Leaves whose first or last row changes go to a list, by an atomic add a warp: the rows
    at their edges are still to be written.
    """
    is_listed, has_moved = may_write & (np.int64(window) < control[LISTED]), False
    leaf, begin, num_keys = d_read_window(table, window, is_listed)
    if num_keys > 0:
        has_moved = d_write_leaf(src, dst, valid, offsets, marks, pairs, leaf, begin, num_keys, far_rows)
    place = d_claim(control, MOVED, has_moved)
    if has_moved:
        table[NARROW_WINDOWS, control[NARROW] + place] = window


@kernel
def k_write_leaves(src, dst, valid, offsets, marks, table, pairs, control, far_rows, most_new, most_leaves):
    """One thread owns one window, see ``d_write_leaves``.

    Nothing where the update comes to more new edges or leaves than so many, as in ``k_write_windows``.
    """
    may_write = d_fits(control, most_new, most_leaves)
    d_write_leaves(src, dst, valid, offsets, marks, table, pairs, control, far_rows, np.uint32(cuda.grid(1)), may_write)


@partial(kernel, max_registers=MAX_REGISTERS, threads=WIDE_THREADS)
def k_merge_wide(
    src, dst, valid, offsets, marks, table, lists, pairs, scratch, control, far_rows, most_new, most_leaves
):
    """Blocks merge windows that are too wide for a warp; then all together those that are too wide for one, in turn.

    Nothing as in ``k_write_leaves``. A kernel of its own, because its blocks are as large as there can be.
    """
    values = cuda.shared.array(MAX_SLOTS, np.int32)
    before = cuda.shared.array(MAX_ENDS, np.int32)
    board = cuda.shared.array(BOARD, np.int64)
    if control[WIDE] + control[GIANT] == 0 or not d_fits(control, most_new, most_leaves):  # the same in all threads
        return
    for i in range(cuda.blockIdx.x, control[WIDE], cuda.gridDim.x):
        window = table[WIDE_WINDOWS, i]
        d_merge_window(
            src, dst, valid, offsets, marks, table, lists, pairs, window, values, before, far_rows, WIDE_THREADS
        )
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


@device
def d_write_windows(
    src, dst, valid, offsets, marks, nodes, table, lists, states, pairs, control, far_rows, num_rows, top, values,
    before,
):  # fmt: skip
    """Warps merge narrow windows; then the rows at all windows' edges, and those of long ranges, are written.

    A grid-wide wait before each of the two. Windows have 2 to 32 leaves, so each warp that is done takes the next one.
    """
    i, warps = np.int64(cuda.grid(1) >> 5), np.int64(cuda.gridsize(1) >> 5)
    while i < control[NARROW]:
        window = table[NARROW_WINDOWS, i]
        d_merge_window(src, dst, valid, offsets, marks, table, lists, pairs, window, values, before, far_rows, WARP)
        if d_lane() == 0:
            i = warps + cuda.atomic.add(control, TAKEN, 1)
        i = d_shuffle(i, 0)
    if control[REVIVED] > 0:
        d_revive_keys(valid, table[POSITIONS], states, num_rows, lists, nodes, top)
    d_sync_grid(far_rows, 1)
    d_write_edge_rows(src, offsets, table, control, far_rows)
    d_write_far_rows(offsets, far_rows, 2)


@partial(kernel, max_registers=MAX_REGISTERS)
def k_write_windows(
    src, dst, valid, offsets, marks, nodes, table, lists, states, pairs, control, far_rows, num_rows, top, most_new,
    most_leaves,
):  # fmt: skip
    """Write what leaves by themselves and windows too wide for a warp leave to be written, see ``d_write_windows``."""
    values = cuda.shared.array(ALL_NARROW_SLOTS, np.int32)
    before = cuda.shared.array(ALL_NARROW_ENDS, np.int32)
    if d_fits(control, most_new, most_leaves):  # the same in all threads
        d_write_windows(
            src, dst, valid, offsets, marks, nodes, table, lists, states, pairs, control, far_rows, num_rows, top,
            values, before,
        )  # fmt: skip
