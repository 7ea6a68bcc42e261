"""Writing lists of keys into the leaves of a packed memory array on CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import SIMULATED, THREADS, WARP, cuda, device, kernel
from dynstore._cuda.grid import d_sync_grid
from dynstore._cuda.leaf_merge import d_merge_leaf
from dynstore._cuda.leaves import d_divide, d_write_edge_rows, d_write_far_rows, d_write_rows_by_warp
from dynstore._cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle
from dynstore.slots import DEAD

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ADDED",
    "COUNT",
    "END",
    "FIRST",
    "FULL",
    "HEAD",
    "HIGH",
    "LEAVES",
    "LISTED",
    "LOW",
    "MAX_HEIGHT",
    "PLACES",
    "POSITIONS",
    "REVIVED",
    "STOPPED",
    "TABLE_ROWS",
    "TOO_WIDE",
    "WIDE",
    "WIDE_WINDOWS",
    "d_node_height",
    "fits",
    "k_write_leaves",
    "k_write_windows",
]

# The height of the widest windows that a block merges: one of their columns fits into its shared memory. Lower in the
# simulator, for small graphs.
MAX_HEIGHT = 2 if SIMULATED else 8
MAX_ENDS = (1 << MAX_HEIGHT) + 1
MAX_SLOTS = 32 << MAX_HEIGHT

# Rows of the sums that decide what is written: dead and absent keys, each once; leaves with absent keys; leaves that
# cannot take theirs; those whose window would be too wide; windows of several leaves; leaves of all windows; whether
# planning stopped, and why.
REVIVED, ADDED, LISTED, FULL, TOO_WIDE, WIDE, LEAVES, STOPPED = range(8)
# Rows of the table: of each window its first and last + 1 leaf, and of its keys, if it is one leaf; of each key the
# slot that it goes before; the windows of several leaves; of each row of the batch the slot where it is or belongs.
TABLE_ROWS = 7
FIRST, END, LOW, HIGH, PLACES, WIDE_WINDOWS, POSITIONS = range(TABLE_ROWS)
# What each leaf has: how many rows of the batch are in its list; the last one + 1, then 1 + its window.
COUNT, HEAD = range(2)


def fits(totals: Sequence[int], most_new: int, most_leaves: int) -> bool:
    """Return whether all is planned, and comes to no more new edges and leaves than so many."""
    planned = (totals[STOPPED] == 0) & (totals[TOO_WIDE] == 0)  # all are read at once: nobody waits for one of them
    return planned & (totals[REVIVED] + totals[ADDED] <= most_new) & (totals[LEAVES] <= most_leaves)


d_fits = device(fits)


@device
def d_node_height(nodes, leaf, top):
    """Return the height of the highest marked node of several leaves that a leaf is below, 0 where there is none."""
    height = 0
    for candidate in range(1, min(top, MAX_HEIGHT) + 1):
        node = (np.int64(1) << (top - candidate)) + (leaf >> candidate)
        if (nodes[node >> 5] >> np.uint32(node & 31)) & np.uint32(1) != 0:
            height = candidate
    return height


@device
def d_revive_keys(valid, positions, states, lists, nodes, top):
    """Threads stride over the batch's rows: a dead key in no window gets its bit back (atomic or).

    Those in windows are merged as edges, because their bits are among the marks.
    """
    for i in range(cuda.grid(1), states.shape[0], cuda.gridsize(1)):
        if states[i] == DEAD:
            slot = positions[i]
            leaf = slot >> 5
            if lists[leaf, HEAD] == 0 and d_node_height(nodes, leaf, top) == 0:
                cuda.atomic.or_(valid, leaf, np.uint32(1) << np.uint32(slot & 31))


@device
def d_count_window(valid, marks, table, lists, first_leaf, num_leaves, before):
    """The block's first warp writes how many elements, with the keys, the window's leaves before each have together."""
    low, high, lane, total = table[LOW], table[HIGH], d_lane(), np.int64(0)
    if cuda.threadIdx.x < WARP:
        for base in range(0, num_leaves, WARP):
            count = np.int64(0)
            if base + lane < num_leaves:
                leaf = first_leaf + base + lane
                item = np.int64(lists[leaf, HEAD]) - 1
                count = np.int64(cuda.popc(valid[leaf] | marks[leaf]))
                if item >= 0:
                    count += high[item] - low[item]
            for step in (1, 2, 4, 8, 16):
                other = d_shuffle(count, (lane - step) & 31)
                if lane >= step:
                    count += other
            if base + lane < num_leaves:
                before[base + lane + 1] = total + count
            total += d_shuffle(count, 31)
        if lane == 0:
            before[0] = 0
    cuda.syncthreads()


@device
def d_gather_column(column, new_column, valid, marks, table, lists, first_leaf, num_leaves, before, values):
    """The block's warps merge one column of each of a window's leaves with that of its keys, by rank."""
    low, high, places, lane = table[LOW], table[HIGH], table[PLACES], d_lane()
    for base in range(cuda.threadIdx.x - lane, num_leaves * 32, cuda.blockDim.x):
        leaf = first_leaf + (base >> 5)
        item, num_keys, begin = np.int64(lists[leaf, HEAD]) - 1, np.int64(0), np.int64(0)
        if item >= 0:
            begin, num_keys = np.int64(low[item]), np.int64(high[item] - low[item])
        word, place, keys_before = np.uint32(valid[leaf] | marks[leaf]), np.int64(64), before[base >> 5]
        if lane < num_keys:
            place = places[begin + lane] - leaf * 32
        for other in range(num_keys):
            if d_shuffle(place, other) <= lane:
                keys_before += 1
        if (word >> np.uint32(lane)) & np.uint32(1) != 0:
            values[keys_before + d_count_lower(word, lane)] = column[leaf * 32 + lane]
        if lane < num_keys:
            edges_before = np.int64(cuda.popc(word)) if place > 31 else d_count_lower(word, place)
            values[before[base >> 5] + lane + edges_before] = new_column[begin + lane]
    cuda.syncthreads()


@device
def d_merge_window(src, dst, valid, offsets, marks, table, lists, pairs, window, values, before, far_rows):
    """The block merges each leaf of a window with its keys, one column after the other, then writes the slots."""
    first_leaf = np.int64(table[FIRST, window])
    num_leaves = np.int64(table[END, window]) - first_leaf
    lane, thread, size = d_lane(), np.int64(cuda.threadIdx.x), num_leaves * 32
    d_count_window(valid, marks, table, lists, first_leaf, num_leaves, before)
    elements = np.int64(before[num_leaves])
    d_gather_column(dst, pairs[1], valid, marks, table, lists, first_leaf, num_leaves, before, values)
    for place in range(thread, size, cuda.blockDim.x):
        dst[first_leaf * 32 + place] = values[d_divide((place + 1) * elements - 1, size)]
    cuda.syncthreads()  # the values have been read
    d_gather_column(src, pairs[0], valid, marks, table, lists, first_leaf, num_leaves, before, values)
    for base in range(thread - lane, size, cuda.blockDim.x):
        place = base + lane
        slot = first_leaf * 32 + place
        element = d_divide((place + 1) * elements - 1, size)
        previous = d_divide(place * elements - 1, size) if place > 0 else np.int64(-1)
        row = np.int64(values[element])
        src[slot] = row
        word = d_ballot(element != previous)
        if lane == 0:
            valid[slot >> 5] = word
        d_write_rows_by_warp(offsets, np.int64(values[previous]) if place > 0 else row, row, slot, far_rows)
    cuda.syncthreads()  # the values have been read


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
    old_row, old_column = d_shuffle(row, source), d_shuffle(column, source)
    key_row, key_column = d_shuffle(key_row, source), d_shuffle(key_column, source)
    new_row, new_column = (key_row, key_column) if source > 31 else (old_row, old_column)
    src[slot] = new_row
    dst[slot] = new_column
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
    src, dst, valid, offsets, marks, nodes, top, table, lists, states, pairs, control, far_rows, most_new, most_leaves
):  # fmt: skip
    """A block merges a window of several leaves; then the rows that begin at the edges of all windows are written.

    Those of long ranges come last; a grid-wide wait before each.
    """
    values = cuda.shared.array(MAX_SLOTS, np.int32)
    before = cuda.shared.array(MAX_ENDS, np.int32)
    if not d_fits(control, most_new, most_leaves):  # the same in all threads
        return
    for i in range(cuda.blockIdx.x, control[WIDE], cuda.gridDim.x):
        window = table[WIDE_WINDOWS, i]
        d_merge_window(src, dst, valid, offsets, marks, table, lists, pairs, window, values, before, far_rows)
    if control[REVIVED] > 0:
        d_revive_keys(valid, table[POSITIONS], states, lists, nodes, top)
    d_sync_grid(far_rows, 1)
    d_write_edge_rows(src, offsets, table[FIRST], table[END], control[LISTED], far_rows)
    d_write_far_rows(offsets, far_rows, 2)
