"""Merging windows of several leaves with lists of keys on CUDA: by a warp, by a block, or, giants, by all blocks."""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import MAX_RESIDENT_BLOCKS, WARP, cuda, device
from dynstore._cuda.grid import SUMS, d_sum_blocks_before, d_sync_grid
from dynstore._cuda.leaves import d_divide_by
from dynstore._cuda.row_starts import d_write_rows_by_warp
from dynstore._cuda.tiles import d_sum_block
from dynstore._cuda.unsorted_layout import (
    COUNT,
    END,
    FIRST,
    GIANT_ARRIVALS,
    HEAD,
    MAX_HEIGHT,
    NARROW_HEIGHT,
    PLACES,
    ROWS,
    SOURCES,
    TARGETS,
    d_count_elements,
)
from dynstore._cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle, d_sync_warp

__all__ = ["NARROW_ENDS", "d_merge_giant", "d_merge_window"]

MAX_LEAVES = 1 << MAX_HEIGHT
# What a warp has of the block's shared memory.
NARROW_SLOTS, NARROW_ENDS = 32 << NARROW_HEIGHT, (1 << NARROW_HEIGHT) + 1


@device
def d_sync_team(team):
    """Wait for so many threads: a warp, or the block. What they wrote before is visible after."""
    if team == WARP:
        d_sync_warp()
    else:
        cuda.syncthreads()


@device
def d_count_window(valid, marks, lists, first_leaf, num_leaves, before, at, thread, team):
    """The team's first warp writes how many elements, with the keys, the window's leaves before each have together.

    A team is a warp or the block: ``team`` threads, of which this one is ``thread``. ``before`` from ``at`` on.
    """
    lane, total = d_lane(), np.int64(0)
    if thread < WARP:
        for base in range(0, num_leaves, WARP):
            count = np.int64(0)
            if base + lane < num_leaves:
                count = d_count_elements(valid, marks, lists, first_leaf + base + lane)
            for step in (1, 2, 4, 8, 16):
                other = d_shuffle(count, (lane - step) & 31)
                if lane >= step:
                    count += other
            if base + lane < num_leaves:
                before[np.uint32(at + base + lane + 1)] = total + count
            total += d_shuffle(count, 31)
        if lane == 0:
            before[np.uint32(at)] = 0
    d_sync_team(team)


@device
def d_read_list(valid, marks, lists, first_leaf, num_leaves, base):
    """Return the word of a leaf, or of the last one instead of any behind it, its first key and how many it has."""
    leaf = np.uint64(first_leaf + min(np.int64(base >> 5), num_leaves - 1))
    return np.uint32(valid[leaf] | marks[leaf]), np.int32(lists[leaf, HEAD]) - np.int32(1), np.int32(lists[leaf, COUNT])


@device
def d_gather_column(
    column, new_column, valid, marks, places, lists, first_leaf, num_leaves, before, at, values, start, thread, team
):  # fmt: skip
    """The team's warps merge one column of each of some leaves with that of its keys: ``values`` from ``start`` on.

    While a warp waits for the keys of a leaf, it reads where those of its next leaf are.
    """
    lane, base = d_lane(), np.int64(thread) - d_lane()
    word, begin, num_keys = d_read_list(valid, marks, lists, first_leaf, num_leaves, base)
    while base < num_leaves * 32:
        value, key = column[np.uint64(first_leaf * 32 + base + lane)], np.uint32(max(begin, np.int32(0)))
        if np.int32(lane) < num_keys:
            key = np.uint32(begin + np.int32(lane))
        new_value, place = new_column[key], places[key] - (first_leaf * 32 + base)
        next_word, next_begin, next_num_keys = d_read_list(valid, marks, lists, first_leaf, num_leaves, base + team)
        keys_before = np.int64(before[np.uint32(at + (base >> 5))])
        if np.int32(lane) < num_keys:
            edges_before = np.int64(cuda.popc(word)) if place > 31 else d_count_lower(word, place)
            values[np.uint32(start + keys_before + lane + edges_before)] = new_value
        for other in range(num_keys):
            if d_shuffle(place, other) <= lane:
                keys_before += 1
        if (word >> np.uint32(lane)) & np.uint32(1) != 0:
            values[np.uint32(start + keys_before + d_count_lower(word, lane))] = value
        word, begin, num_keys = next_word, next_begin, next_num_keys
        base += team
    d_sync_team(team)


@device
def d_write_slots(src, valid, offsets, first_leaf, size, elements, base, values, start, far_rows):
    """The warp writes the rows of a leaf's slots, the word, and the row starts.

    ``values`` from ``start`` on: the rows of the window's elements.
    """
    lane = d_lane()
    place = base + lane
    slot, inverse = first_leaf * 32 + place, 1.0 / size
    element = d_divide_by((place + 1) * elements - 1, size, inverse)
    previous = d_divide_by(place * elements - 1, size, inverse) if place > 0 else np.int64(-1)
    row = np.int64(values[np.uint32(start + element)])
    src[slot] = row
    word = d_ballot(element != previous)
    if lane == 0:
        valid[slot >> 5] = word
    d_write_rows_by_warp(
        offsets, np.int64(values[np.uint32(start + previous)]) if place > 0 else row, row, slot, far_rows
    )


@device
def d_merge_window(src, dst, valid, offsets, marks, table, lists, pairs, window, values, before, far_rows, team):
    """The team merges each leaf of a window with its keys, one column after the other, then writes the slots.

    ``values`` and ``before``: shared; each warp has a part of them, or the block all.
    """
    first_leaf, places, new_src, new_dst = np.int32(table[FIRST, window]), pairs[PLACES], pairs[SOURCES], pairs[TARGETS]
    num_leaves, thread = np.int32(table[END, window] - first_leaf), np.int32(cuda.threadIdx.x & (team - 1))
    lane, size = np.int32(d_lane()), np.int32(num_leaves * 32)
    number = (cuda.threadIdx.x - thread) >> 5  # of the warp, 0 for the block
    start, at = np.int32(number * NARROW_SLOTS), np.int32(number * NARROW_ENDS)
    d_count_window(valid, marks, lists, first_leaf, num_leaves, before, at, thread, team)
    elements = np.int32(before[np.uint32(at + num_leaves)])
    d_gather_column(
        dst, new_dst, valid, marks, places, lists, first_leaf, num_leaves, before, at, values, start, thread, team
    )
    inverse = 1.0 / size
    for place in range(thread, size, team):
        element = d_divide_by((place + 1) * elements - 1, size, inverse)
        dst[first_leaf * 32 + place] = values[np.uint32(start + element)]
    d_sync_team(team)  # the values have been read
    d_gather_column(
        src, new_src, valid, marks, places, lists, first_leaf, num_leaves, before, at, values, start, thread, team
    )
    for base in range(thread - lane, size, team):
        d_write_slots(src, valid, offsets, first_leaf, size, elements, base, values, start, far_rows)
    d_sync_team(team)  # the values have been read


@device
def d_merge_giant(
    src, dst, valid, offsets, marks, table, lists, pairs, window, scratch, before, board, control, far_rows, waits
):
    """All blocks merge a window together, each some of its leaves, to ``scratch``; then all write its slots.

    Two grid-wide waits, after the first ``waits``. What scratch had before has been read by the first.
    """
    first_leaf = np.int64(table[FIRST, window])
    num_leaves, thread = np.int64(table[END, window]) - first_leaf, np.int64(cuda.threadIdx.x)
    share = (num_leaves + cuda.gridDim.x - 1) // cuda.gridDim.x
    leaf = first_leaf + min(cuda.blockIdx.x * share, num_leaves)
    last = min(leaf + share, first_leaf + num_leaves)
    count = np.int64(0)
    for other in range(leaf + thread, last, cuda.blockDim.x):
        count += d_count_elements(valid, marks, lists, other)
    count = d_sum_block(count, board)
    if thread == 0:
        control[SUMS + ROWS * MAX_RESIDENT_BLOCKS + cuda.blockIdx.x] = count
    d_sync_grid(control, waits + 1, GIANT_ARRIVALS)
    rank, elements = d_sum_blocks_before(control, ROWS, board), np.int64(0)
    for block in range(thread, cuda.gridDim.x, cuda.blockDim.x):
        elements += control[SUMS + ROWS * MAX_RESIDENT_BLOCKS + block]
    elements = d_sum_block(elements, board)
    while leaf < last:
        part = min(last - leaf, np.int64(MAX_LEAVES))
        d_count_window(valid, marks, lists, leaf, part, before, 0, thread, cuda.blockDim.x)
        d_gather_column(
            src, pairs[SOURCES], valid, marks, pairs[PLACES], lists, leaf, part, before, 0, scratch[0], rank, thread,
            cuda.blockDim.x,
        )  # fmt: skip
        d_gather_column(
            dst, pairs[TARGETS], valid, marks, pairs[PLACES], lists, leaf, part, before, 0, scratch[1], rank, thread,
            cuda.blockDim.x,
        )  # fmt: skip
        rank += before[part]
        leaf += part
        cuda.syncthreads()  # the counts have been read
    d_sync_grid(control, waits + 2, GIANT_ARRIVALS)
    lane, size, inverse = d_lane(), num_leaves * 32, 1.0 / (num_leaves * 32)
    for base in range(cuda.grid(1) - lane, size, cuda.gridsize(1)):
        dst[first_leaf * 32 + base + lane] = scratch[1, d_divide_by((base + lane + 1) * elements - 1, size, inverse)]
        d_write_slots(src, valid, offsets, first_leaf, size, elements, base, scratch[0], 0, far_rows)
