"""Writing lists of keys into the leaves of a packed memory array on CUDA."""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import THREADS, WARP, cuda, device, kernel
from dynstore._cuda.grid import d_sync_grid
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
from dynstore._cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle, d_sync_warp
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

# Behind all slots of a leaf.
NO_PLACE = np.int32(64)
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
    return np.int32(leaf * own), np.int32(begin * own), np.int32((last - begin) * own)


@device
def d_read_leaf(src, dst, valid, marks, table, pairs, leaf, begin, num_keys):
    """Return a leaf's words, the lane's slot of it, and the lane's key; a lane without one gets the first key.

    Nothing is done with what is read, which would wait for it.
    """
    lane = np.uint32(d_lane())
    slot, key = np.uint32(np.uint32(leaf << np.uint32(5)) + lane), np.uint32(begin)
    if np.int32(lane) < num_keys:
        key = np.uint32(begin + lane)
    return valid[leaf], marks[leaf], src[slot], dst[slot], table[PLACES, key], pairs[0, key], pairs[1, key]


@device
def d_merge_slots(board, word, row, column, place, key_row, key_column, num_keys):
    """Merge a leaf's slots with its keys and spread them as ``d_merge_leaf`` does; return the lane's row and column.

    Each element goes to its rank in shared memory, and from there to the slots that show it. Also returns the new word.
    """
    lane = np.uint32(d_lane())
    start = np.uint32(np.uint32(cuda.threadIdx.x) - lane)
    mine = np.int32(place) if np.int32(lane) < num_keys else NO_PLACE
    rank, other, below = np.uint32(d_count_lower(word, lane)), np.int32(0), d_shuffle(mine, 0)
    while below < NO_PLACE and other < WARP:  # fewer instructions than a loop up to num_keys, which is mostly 1
        rank += np.uint32(below <= np.int32(lane))
        other += np.int32(1)
        below = d_shuffle(mine, other & np.int32(31))
    d_sync_warp()  # what the board had before has been read
    if word & np.uint32(np.uint32(1) << lane) != 0:
        board[np.uint32(start + rank)] = (np.int64(row) << 32) | np.uint32(column)
    if np.int32(lane) < num_keys:
        edges_before = np.uint32(cuda.popc(word) if mine > 31 else d_count_lower(word, mine))
        board[np.uint32(start + np.uint32(lane + edges_before))] = (np.int64(key_row) << 32) | np.uint32(key_column)
    d_sync_warp()
    elements = np.uint32(np.uint32(cuda.popc(word)) + np.uint32(num_keys))
    following = np.uint32(np.uint32(lane * elements) + np.uint32(elements - np.uint32(1)))
    value = board[np.uint32(start + np.uint32(following >> np.uint32(5)))]
    return np.int32(value >> 32), np.int32(value & 0xFFFFFFFF), d_ballot((following & np.uint32(31)) < elements)


@device
def d_write_leaf(
    src, dst, valid, offsets, board, leaf, num_keys, word, row, column, place, key_row, key_column, far_rows
):  # fmt: skip
    """Merge a leaf with its keys, as ``d_read_leaf`` returned them; return whether its first or last row changed."""
    lane, base = np.uint32(d_lane()), np.uint32(leaf << np.uint32(5))
    slot, place, word = np.uint32(base + lane), np.int32(np.uint32(place) - base), np.uint32(word)
    new_row, new_column, shown = d_merge_slots(board, word, row, column, place, key_row, key_column, num_keys)
    if new_row != row:
        src[slot] = new_row
    dst[slot] = new_column
    if lane == 0:
        valid[leaf] = shown
    row_before = d_shuffle(new_row, np.int32(lane) - 1)
    d_write_rows_by_warp(
        offsets, np.int64(row_before if lane > 0 else new_row), np.int64(new_row), np.int64(slot), far_rows
    )
    return d_ballot(new_row != row) & np.uint32(0x80000001) != 0


@device
def d_note_moved(table, window, moved, control):
    """List a window if its leaf has ``moved``; one atomic add."""
    if moved and d_lane() == 0:
        table[NARROW_WINDOWS, control[NARROW] + cuda.atomic.add(control, MOVED, 1)] = window


@device
def d_write_leaves(src, dst, valid, offsets, marks, table, pairs, control, far_rows, first, each, may_write, board):
    """A warp merges those of ``each`` windows, at most 32, that are one leaf, where ``may_write``.

    It reads a leaf while it merges the one before. Leaves whose first or last row changes go to a list: the rows at
    their edges are still to be written. ``board``: shared, int64, an entry a thread.
    """
    lane = np.uint32(d_lane())
    window = np.uint32(first + lane)
    is_listed = (lane < each) & (np.int64(window) < control[LISTED]) & may_write
    leaves, begins, counts = d_read_window(table, window, is_listed)
    pending = d_ballot(counts > 0)
    if pending == 0:
        return
    owner = np.int32(cuda.ffs(np.int32(pending))) - np.int32(1)
    leaf, num_keys = np.uint32(d_shuffle(leaves, owner)), d_shuffle(counts, owner)
    word, more, row, column, place, key_row, key_column = d_read_leaf(
        src, dst, valid, marks, table, pairs, leaf, np.uint32(d_shuffle(begins, owner)), num_keys
    )
    while pending != 0:
        pending = np.uint32(pending & np.uint32(pending - np.uint32(1)))
        # Not behind a branch, before which the reads of this leaf would be waited for: the last one is read twice.
        next_owner = np.int32(cuda.ffs(np.int32(pending))) - np.int32(1) if pending != 0 else owner
        next_leaf, next_num_keys = np.uint32(d_shuffle(leaves, next_owner)), d_shuffle(counts, next_owner)
        next_word, next_more, next_row, next_column, next_place, next_key_row, next_key_column = d_read_leaf(
            src, dst, valid, marks, table, pairs, next_leaf, np.uint32(d_shuffle(begins, next_owner)), next_num_keys
        )
        moved = d_write_leaf(
            src, dst, valid, offsets, board, leaf, num_keys, word | more, row, column, place, key_row, key_column,
            far_rows,
        )  # fmt: skip
        d_note_moved(table, np.uint32(first + np.uint32(owner)), moved, control)
        owner, leaf, num_keys, word, more = next_owner, next_leaf, next_num_keys, next_word, next_more
        row, column, place, key_row, key_column = next_row, next_column, next_place, next_key_row, next_key_column


@kernel
def k_write_leaves(src, dst, valid, offsets, marks, table, pairs, control, far_rows, most_new, most_leaves, each):
    """One warp owns ``each`` windows, see ``d_write_leaves``.

    Nothing where the update comes to more new edges or leaves than so many, as in ``k_write_windows``.
    """
    board = cuda.shared.array(THREADS, np.int64)
    first, may_write = np.uint32(np.uint32(cuda.grid(1) >> 5) * np.uint32(each)), d_fits(control, most_new, most_leaves)
    d_write_leaves(src, dst, valid, offsets, marks, table, pairs, control, far_rows, first, each, may_write, board)


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


@device
def d_write_windows(
    src, dst, valid, offsets, marks, nodes, table, lists, states, pairs, control, far_rows, num_rows, top, values,
    before,
):  # fmt: skip
    """Warps merge narrow windows; then the rows at all windows' edges, and those of long ranges, are written.

    A grid-wide wait before each of the two.
    """
    for i in range(cuda.grid(1) >> 5, control[NARROW], cuda.gridsize(1) >> 5):
        window = table[NARROW_WINDOWS, i]
        d_merge_window(src, dst, valid, offsets, marks, table, lists, pairs, window, values, before, far_rows, WARP)
    if control[REVIVED] > 0:
        d_revive_keys(valid, table[POSITIONS], states, num_rows, lists, nodes, top)
    d_sync_grid(far_rows, 1)
    d_write_edge_rows(src, offsets, table, control, far_rows)
    d_write_far_rows(offsets, far_rows, 2)


@kernel
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
