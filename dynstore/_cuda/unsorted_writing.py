"""Writing lists of keys into the leaves of a packed memory array on CUDA."""

from __future__ import annotations

from functools import partial

import numpy as np

from dynstore._cuda.compiler import SIMULATED, THREADS, WARP, cuda, device, kernel
from dynstore._cuda.grid import d_sync_grid
from dynstore._cuda.leaves import d_list_ranges, d_write_far_rows, d_write_rows_by_warp
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
    SOURCES,
    TAKEN,
    TARGETS,
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
    "LEAF_BOARDS",
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
# What half a warp needs of it for a leaf: a place for each element, and one for what is none; and a block for all.
LEAF_ROOM = 33
LEAF_BOARDS = LEAF_ROOM * (THREADS // 16)
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
def d_read_leaf(src, dst, valid, marks, places, new_src, new_dst, leaf, begin, num_keys):
    """Return a leaf's words, the two slots of it that the lane has, and the lane's key; one without gets the first key.

    A leaf has 16 lanes. Nothing is done with what is read, which would wait for it.
    """
    lane = np.uint32(np.uint32(d_lane()) & np.uint32(15))
    slot, key = np.uint64(np.uint32(np.uint32(leaf << np.uint32(5)) + lane)), np.uint32(begin)
    other = slot + np.uint64(16)
    if np.int32(lane) < num_keys:
        key = np.uint32(begin + lane)
    return (
        valid[leaf], marks[leaf], src[slot], dst[slot], src[other], dst[other], places[key], new_src[key], new_dst[key]
    )  # fmt: skip


@device
def d_start_board():
    """Return where the part of the board begins that is for the leaf of this half of a warp."""
    return np.uint32(np.uint32(np.uint32(cuda.threadIdx.x) >> np.uint32(4)) * np.uint32(LEAF_ROOM))


@device
def d_send(board, start, rank, row, column, wanted):
    """Send an element to its rank on a leaf's part of the board; one that is not wanted behind all."""
    at = np.uint32(start + (np.uint32(rank) if wanted else np.uint32(32)))
    board[at] = (np.int64(row) << 32) | np.uint32(column)


@device
def d_rank_key(word, place, number):
    """Return the rank of a leaf's key of that number: the edges before its place, and the keys before."""
    return np.uint32(number + np.uint32(cuda.popc(word) if place > 31 else d_count_lower(word, place)))


@device
def d_send_leaf(
    board, places, new_src, new_dst, leaf, begin, num_keys, word, row, column, other_row, other_column, place, key_row,
    key_column,
):  # fmt: skip
    """Send a leaf's edges and keys, as ``d_read_leaf`` returned them, to their ranks on the leaf's part of the board.

    Returns how many they are; 1 for none.
    """
    lane, half = np.int32(d_lane() & 15), np.int32(d_lane() & 16)
    other_lane, base, start = np.int32(lane + np.int32(16)), np.uint32(leaf << np.uint32(5)), d_start_board()
    edges, from_lane = np.uint32(cuda.popc(word)), np.uint32(word >> np.uint32(lane))
    from_other = np.uint32(from_lane >> np.uint32(16))
    rank = np.uint32(edges - np.uint32(cuda.popc(from_lane)))
    other_rank = np.uint32(edges - np.uint32(cuda.popc(from_other)))
    mine = np.int32(np.uint32(place) - base) if lane < num_keys else NO_PLACE
    below, number = d_shuffle(mine, half), np.int32(1)
    rank += np.uint32(below <= lane)
    other_rank += np.uint32(below <= other_lane)
    d_send(board, start, d_rank_key(word, mine, np.uint32(lane)), key_row, key_column, lane < num_keys)
    while d_ballot(number < num_keys) != 0:  # of either leaf; mostly it has one
        if number == 16:
            key = np.uint32(begin)
            if other_lane < num_keys:
                key = np.uint32(begin + np.uint32(other_lane))
            mine = np.int32(np.uint32(places[key]) - base) if other_lane < num_keys else NO_PLACE
            rank_of_key = d_rank_key(word, mine, np.uint32(other_lane))
            d_send(board, start, rank_of_key, new_src[key], new_dst[key], other_lane < num_keys)
        below = d_shuffle(mine, half | (number & np.int32(15)))
        rank += np.uint32(below <= lane)
        other_rank += np.uint32(below <= other_lane)
        number = np.int32(number + np.int32(1))
    d_send(board, start, rank, row, column, from_lane & np.uint32(1) != 0)
    d_send(board, start, other_rank, other_row, other_column, from_other & np.uint32(1) != 0)
    return np.uint32(max(np.uint32(edges + np.uint32(num_keys)), np.uint32(1)))


@device
def d_write_leaf_rows(offsets, row, other_row, slot, far_rows):
    """Let the rows that begin in a leaf, not at its first slot, start there; the lane's two slots show those rows."""
    lane, half = np.int32(d_lane() & 15), np.int32(d_lane() & 16)
    left = half | ((lane - np.int32(1)) & np.int32(15))  # of the first lane the last: its slot is before the other one
    before, other_before = d_shuffle(row, left), d_shuffle(other_row, left)
    if lane == 0:
        before, other_before = row, before
    other_slot = np.int32(slot + np.int32(16))
    length, other_length = np.int32(row - before), np.int32(other_row - other_before)
    while d_ballot(max(length, other_length) > WARP) != 0:  # mostly never, twice at most
        is_first = length > WARP
        low, high, at = (before, row, slot) if is_first else (other_before, other_row, other_slot)
        d_list_ranges(far_rows, low, high, at)
        if is_first:
            length = np.int32(0)
        elif other_length > WARP:
            other_length = np.int32(0)
    while d_ballot(max(length, other_length) > 0) != 0:
        if length > 0:
            offsets[np.uint32(before + length)] = slot
        if other_length > 0:
            offsets[np.uint32(other_before + other_length)] = other_slot
        length, other_length = np.int32(length - np.int32(1)), np.int32(other_length - np.int32(1))


@device
def d_write_leaf(src, dst, valid, offsets, board, leaf, elements, exists, row, other_row, far_rows):
    """Spread a leaf's elements as ``d_merge_leaf`` does, from the board to the slots that show them, if it ``exists``.

    ``row``, ``other_row``: of the lane's two slots, before. Returns, in the leaf's first lane, whether its first or
    last row has changed. All lanes of the warp call.
    """
    lane, half, start = np.int32(d_lane() & 15), np.uint32(d_lane() & 16), d_start_board()
    slot = np.uint64(np.uint32(np.uint32(leaf << np.uint32(5)) + np.uint32(lane)))
    other, has_moved = slot + np.uint64(16), False
    following = np.uint32(np.uint32(np.uint32(lane) * elements) + np.uint32(elements - np.uint32(1)))
    other_following = np.uint32(following + np.uint32(elements << np.uint32(4)))
    value = board[np.uint32(start + np.uint32(following >> np.uint32(5)))]
    other_value = board[np.uint32(start + np.uint32(other_following >> np.uint32(5)))]
    shown = d_ballot((following & np.uint32(31)) < elements)
    other_shown = d_ballot((other_following & np.uint32(31)) < elements)
    new_row = np.int32(value >> 32) if exists else np.int32(0)
    new_other_row = np.int32(other_value >> 32) if exists else np.int32(0)
    changed, other_changed = exists and new_row != row, exists and new_other_row != other_row
    if changed:
        src[slot] = new_row
    if other_changed:
        src[other] = new_other_row
    if exists:
        dst[slot], dst[other] = np.int32(value & 0xFFFFFFFF), np.int32(other_value & 0xFFFFFFFF)
    if exists and lane == 0:
        first = np.uint32(np.uint32(shown >> half) & np.uint32(0xFFFF))
        valid[leaf] = np.uint32(first | np.uint32(np.uint32(other_shown >> half) << np.uint32(16)))
    if d_ballot(changed | other_changed | (new_row != new_other_row)) != 0:  # else each has one row, and had it before
        d_write_leaf_rows(offsets, new_row, new_other_row, np.int32(slot), far_rows)
        moved = d_ballot((lane == 0 and changed) or (lane == 15 and other_changed))
        has_moved = lane == 0 and np.uint32(moved >> half) & np.uint32(0xFFFF) != 0
    return has_moved


@device
def d_write_leaves(src, dst, valid, offsets, marks, table, pairs, control, far_rows, first, each, may_write, board):
    """The warp merges those of ``each`` windows, at most 32, from ``first`` on, that are one leaf with its keys.

    None where not ``may_write``. Two at a time; the next two are read once these are on the ``board``, shared, see
    ``LEAF_BOARDS``. Leaves whose first or last row changes go to a list, by an atomic add: the rows at their edges are
    still to be written.
    """
    places, new_src, new_dst = pairs[PLACES], pairs[SOURCES], pairs[TARGETS]
    window = np.uint32(first + np.uint32(d_lane()))
    is_listed = (d_lane() < each) & (np.int64(window) < control[LISTED]) & may_write
    leaves, begins, counts = d_read_window(table, window, is_listed)
    pending, owner = d_ballot(counts > 0), np.int32(d_lane() >> 4)
    if pending == 0:
        return
    leaf, begin = np.uint32(d_shuffle(leaves, owner)), np.uint32(d_shuffle(begins, owner))
    num_keys = d_shuffle(counts, owner)
    word, more, row, column, other_row, other_column, place, key_row, key_column = d_read_leaf(
        src, dst, valid, marks, places, new_src, new_dst, leaf, begin, num_keys
    )
    while pending != 0:
        elements = d_send_leaf(
            board, places, new_src, new_dst, leaf, begin, num_keys, np.uint32(word | more), row, column, other_row,
            other_column, place, key_row, key_column,
        )  # fmt: skip
        this, exists, row_before, other_row_before = leaf, num_keys > 0, row, other_row
        this_window = np.uint32(first + np.uint32(owner))
        owner = np.int32(owner + np.int32(2))
        leaf, begin = np.uint32(d_shuffle(leaves, owner)), np.uint32(d_shuffle(begins, owner))  # 0 behind the last
        num_keys = d_shuffle(counts, owner)
        word, more, row, column, other_row, other_column, place, key_row, key_column = d_read_leaf(
            src, dst, valid, marks, places, new_src, new_dst, leaf, begin, num_keys
        )
        d_sync_warp()
        has_moved = d_write_leaf(
            src, dst, valid, offsets, board, this, elements, exists, row_before, other_row_before, far_rows
        )
        if has_moved:
            table[NARROW_WINDOWS, control[NARROW] + cuda.atomic.add(control, MOVED, 1)] = this_window
        d_sync_warp()  # what is on the board has been read
        pending = np.uint32(pending >> np.uint32(2))


@kernel
def k_write_leaves(src, dst, valid, offsets, marks, table, pairs, control, far_rows, most_new, most_leaves, each):
    """One warp owns ``each`` windows, see ``d_write_leaves``.

    Nothing where the update comes to more new edges or leaves than so many, as in ``k_write_windows``.
    """
    board = cuda.shared.array(LEAF_BOARDS, np.int64)
    first, may_write = np.uint32(np.uint32(cuda.grid(1) >> 5) * np.uint32(each)), d_fits(control, most_new, most_leaves)
    d_write_leaves(src, dst, valid, offsets, marks, table, pairs, control, far_rows, first, each, may_write, board)


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
