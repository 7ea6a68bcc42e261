"""Writing lists of keys into the leaves of a packed memory array on CUDA."""

from __future__ import annotations

from functools import partial

import numpy as np

from dynstore._cuda.compiler import SIMULATED, THREADS, WARP, cuda, device, kernel
from dynstore._cuda.grid import d_sync_grid
from dynstore._cuda.pieces import d_first_leaf
from dynstore._cuda.row_starts import d_write_far_rows, d_write_rows_by_warp
from dynstore._cuda.shifting import d_shift_keys
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
    "d_merge_narrow",
    "d_revive_keys",
    "d_write_all_leaves",
    "d_write_starts",
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
def d_write_leaves(src, dst, valid, offsets, marks, table, pairs, control, far_rows, board, window, may_write):
    """Each lane puts the keys of a window that is one leaf into it, see ``d_shift_keys``. All lanes of the warp call.

    None where not ``may_write``. Leaves whose first or last row changes go to a list, by an atomic add a warp: the rows
    at their edges are still to be written.
    """
    leaf, begin, num_keys = d_read_window(table, np.uint32(window), may_write & (window < control[LISTED]))
    places, word = pairs[PLACES], np.uint32(valid[leaf] | marks[leaf])
    has_moved = d_shift_keys(
        src, dst, dst, False, valid, offsets, board, places, places, False, pairs[SOURCES], pairs[TARGETS], dst, leaf,
        word, begin, num_keys, far_rows,
    )  # fmt: skip
    place = d_claim(control, MOVED, has_moved)
    if has_moved:
        table[NARROW_WINDOWS, table.shape[1] - 1 - place] = leaf


@device
def d_write_all_leaves(src, dst, valid, offsets, marks, table, pairs, control, far_rows, board):
    """All warps share the windows of one leaf evenly, a lane each: the fewer a warp has, the fewer steps it takes."""
    num_listed, warps, lane = control[LISTED], np.int64(cuda.gridsize(1) >> 5), d_lane()
    each = min(max((num_listed + warps - 1) // warps, np.int64(1)), np.int64(WARP))
    for first in range((cuda.grid(1) >> 5) * each, num_listed, warps * each):
        d_write_leaves(
            src, dst, valid, offsets, marks, table, pairs, control, far_rows, board, first + lane, lane < each
        )


@kernel
def k_write_leaves(src, dst, valid, offsets, marks, table, pairs, control, far_rows, most_new, most_leaves):
    """Write windows that are one leaf, see ``d_write_all_leaves``.

    Nothing where the update comes to more new edges or leaves than so many, as in ``k_write_windows``.
    """
    board = cuda.shared.array(THREADS, np.uint32)
    if d_fits(control, most_new, most_leaves):  # the same in all threads
        d_write_all_leaves(src, dst, valid, offsets, marks, table, pairs, control, far_rows, board)


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
def d_read_edge_rows(src, offsets, table, giants, wide, narrow, item, at_end):
    """Return the rows before and behind an edge of a window, or of a leaf that has moved, and its slot."""
    room, several = table.shape[1], giants + wide
    if item < several + narrow:
        if item < several:
            window = table[WIDE_WINDOWS, room - 1 - item if item < giants else item - giants]
        else:
            window = table[NARROW_WINDOWS, item - several]
        slot = np.int64(table[END if at_end else FIRST, window]) * 32
    else:
        slot = (np.int64(table[NARROW_WINDOWS, room - 1 - (item - several - narrow)]) + np.int64(at_end)) * 32
    low = np.int64(src[slot - 1]) if slot > 0 else np.int64(-1)
    high = np.int64(src[slot]) if slot < src.shape[0] else np.int64(offsets.shape[0] - 1)
    return low, high, slot


@device
def d_write_starts(src, offsets, table, control, far_rows):
    """Write the rows that begin at edges of windows, two lanes each, then long ranges of rows: a grid-wide wait before.

    Both windows at an edge between two write the same; so do those that have not been merged.
    """
    d_sync_grid(far_rows, 1)
    lane, giants, wide, narrow = d_lane(), control[GIANT], control[WIDE], control[NARROW]
    count = giants + wide + narrow + control[MOVED]
    for base in range(cuda.grid(1) - lane, 2 * count, cuda.gridsize(1)):
        item, low, high, slot = (base + lane) >> 1, np.int64(0), np.int64(0), np.int64(0)
        if item < count:
            low, high, slot = d_read_edge_rows(src, offsets, table, giants, wide, narrow, item, lane & 1 != 0)
        d_write_rows_by_warp(offsets, low, high, slot, far_rows)
    d_write_far_rows(offsets, far_rows, 2)


@device
def d_revive_first(valid, marks, lists, nodes, top, num_pieces):
    """Do as ``d_revive_keys`` for edges in the first slots of pieces: threads stride over the pieces."""
    for piece in range(1 + cuda.grid(1), num_pieces, cuda.gridsize(1)):
        leaf = np.int64(d_first_leaf(piece))
        is_told = marks[leaf] & np.uint32(1) != 0
        if is_told and lists[leaf, HEAD] == 0 and d_node_height(nodes, leaf, top) == 0:
            cuda.atomic.or_(valid, leaf, np.uint32(1))


@device
def d_merge_narrow(src, dst, valid, offsets, marks, table, lists, pairs, control, far_rows, values, before):
    """Warps merge narrow windows; these have 2 to 32 leaves, so each warp that is done takes the next one."""
    i, warps = np.int64(cuda.grid(1) >> 5), np.int64(cuda.gridsize(1) >> 5)
    while i < control[NARROW]:
        window = table[NARROW_WINDOWS, i]
        d_merge_window(src, dst, valid, offsets, marks, table, lists, pairs, window, values, before, far_rows, WARP)
        if d_lane() == 0:
            i = warps + cuda.atomic.add(control, TAKEN, 1)
        i = d_shuffle(i, 0)


@partial(kernel, max_registers=MAX_REGISTERS)
def k_write_windows(
    src, dst, valid, offsets, marks, nodes, table, lists, states, pairs, control, far_rows, num_rows, top, num_pieces,
    most_new, most_leaves,
):  # fmt: skip
    """Write what leaves by themselves and windows too wide for a warp leave to be written.

    Where pieces have been written, ``num_pieces`` else 0, rows begin at their leaves' edges whatever has become of
    other leaves; and only dead edges in first slots of pieces have no bits yet.
    """
    values = cuda.shared.array(ALL_NARROW_SLOTS, np.int32)
    before = cuda.shared.array(ALL_NARROW_ENDS, np.int32)
    may_write = d_fits(control, most_new, most_leaves)  # the same in all threads
    if may_write:
        d_merge_narrow(src, dst, valid, offsets, marks, table, lists, pairs, control, far_rows, values, before)
        if control[REVIVED] > 0 and num_pieces > 0:
            d_revive_first(valid, marks, lists, nodes, top, num_pieces)
        elif control[REVIVED] > 0:
            d_revive_keys(valid, table[POSITIONS], states, num_rows, lists, nodes, top)
    if may_write or num_pieces > 0:
        d_write_starts(src, offsets, table, control, far_rows)
