"""Merging windows of several leaves with their buckets on CUDA: by a warp, a block or the grid."""

from __future__ import annotations

import numpy as np

from dynstore.cuda.block import d_sum_block
from dynstore.cuda.compiler import MAX_RESIDENT_BLOCKS, WARP, cuda, device
from dynstore.cuda.grid import SUMS, d_sum_blocks_before, d_sync_grid
from dynstore.cuda.warp import d_ballot, d_count_lower, d_lane, d_scan_lanes, d_scan_lanes_64, d_shuffle, d_sync_warp
from dynstore.stores.gpma_plus.cuda.bucket_layout import (
    COUNT,
    GIANT_ARRIVALS,
    HEAD,
    MAX_HEIGHT,
    NARROW_HEIGHT,
    PLACES,
    ROWS,
    SOURCES,
    TARGETS,
    WindowLeaves,
    d_count_elements,
)
from dynstore.stores.pma.cuda.records import Edge
from dynstore.stores.pma.cuda.redistribute import d_divide_by
from dynstore.stores.pma.cuda.row_offsets import d_write_rows_by_warp

__all__ = ["NARROW_SLOTS", "d_merge_by_warp", "d_merge_giant", "d_merge_window"]

MAX_LEAVES = 1 << MAX_HEIGHT
# A warp's part of the block's shared memory: the sources of a window, then its destinations.
NARROW_COLUMN = 32 << NARROW_HEIGHT
NARROW_SLOTS = 2 * NARROW_COLUMN


@device
def d_count_window(leaves, window, before):
    """The block's first warp writes the number of elements, keys included, ``before`` each leaf of the window."""
    lane, total = d_lane(), np.int64(0)
    if cuda.threadIdx.x < WARP:
        for base in range(0, window.count, WARP):
            count = np.int64(0)
            if base + lane < window.count:
                count = d_count_elements(leaves, window.first + base + lane)
            count = d_scan_lanes_64(count)
            if base + lane < window.count:
                before[np.uint32(base + lane + 1)] = total + count
            total += d_shuffle(count, 31)
        if lane == 0:
            before[0] = 0
    cuda.syncthreads()


@device
def d_read_list(leaves, window, base):
    """Return a leaf's word, first key and number of keys; behind the last leaf, those of the last."""
    leaf = np.uint64(window.first + min(np.int64(base >> 5), window.count - 1))
    return (
        np.uint32(leaves.valid[leaf] | leaves.marks[leaf]),
        np.int32(leaves.lists[leaf, HEAD]) - np.int32(1),
        np.int32(leaves.lists[leaf, COUNT]),
    )


@device
def d_gather_column(column, new_column, places, leaves, window, before, values, start):
    """The block's warps merge one column of some leaves with that of their keys, into ``values`` from ``start`` on.

    While a warp waits for the keys of a leaf, it reads where those of its next leaf are.
    """
    lane, base = d_lane(), np.int64(cuda.threadIdx.x) - d_lane()
    word, begin, num_keys = d_read_list(leaves, window, base)
    while base < window.count * 32:
        value, key = column[np.uint64(window.first * 32 + base + lane)], np.uint32(max(begin, np.int32(0)))
        if np.int32(lane) < num_keys:
            key = np.uint32(begin + np.int32(lane))
        new_value, place = new_column[key], places[key] - (window.first * 32 + base)
        next_word, next_begin, next_num_keys = d_read_list(leaves, window, base + cuda.blockDim.x)
        keys_before = np.int64(before[np.uint32(base >> 5)])
        if np.int32(lane) < num_keys:
            edges_before = np.int64(cuda.popc(word)) if place > 31 else d_count_lower(word, place)
            values[np.uint32(start + keys_before + lane + edges_before)] = new_value
        for other in range(num_keys):
            if d_shuffle(place, other) <= lane:
                keys_before += 1
        if (word >> np.uint32(lane)) & np.uint32(1) != 0:
            values[np.uint32(start + keys_before + d_count_lower(word, lane))] = value
        word, begin, num_keys = next_word, next_begin, next_num_keys
        base += cuda.blockDim.x
    cuda.syncthreads()


@device
def d_write_slots(slots, first_leaf, size, elements, base, values, start):
    """The warp writes the sources of a leaf's slots, its word and its row offsets.

    ``values`` from ``start`` on: the sources of the window's elements.
    """
    lane = d_lane()
    place = base + lane
    slot, inverse = first_leaf * 32 + place, 1.0 / size
    element = d_divide_by((place + 1) * elements - 1, size, inverse)
    previous = d_divide_by(place * elements - 1, size, inverse) if place > 0 else np.int64(-1)
    row = np.int64(values[np.uint32(start + element)])
    slots.src[slot] = row
    word = d_ballot(element != previous)
    if lane == 0:
        slots.valid[slot >> 5] = word
    d_write_rows_by_warp(
        slots.offsets, np.int64(values[np.uint32(start + previous)]) if place > 0 else row, row, slot, slots.far_rows
    )


@device
def d_merge_window(slots, leaves, pairs, window, values, before):
    """The block merges each leaf of a window with its keys, one column after the other, then writes the slots.

    ``values`` and ``before`` are in shared memory.
    """
    thread, lane, size = np.int32(cuda.threadIdx.x), np.int32(d_lane()), np.int32(window.count * 32)
    d_count_window(leaves, window, before)
    elements = np.int32(before[np.uint32(window.count)])
    d_gather_column(slots.dst, pairs[TARGETS], pairs[PLACES], leaves, window, before, values, 0)
    inverse = 1.0 / size
    for place in range(thread, size, cuda.blockDim.x):
        element = d_divide_by((place + 1) * elements - 1, size, inverse)
        slots.dst[window.first * 32 + place] = values[np.uint32(element)]
    cuda.syncthreads()  # the values have been read
    d_gather_column(slots.src, pairs[SOURCES], pairs[PLACES], leaves, window, before, values, 0)
    for base in range(thread - lane, size, cuda.blockDim.x):
        d_write_slots(slots, window.first, size, elements, base, values, 0)
    cuda.syncthreads()  # the values have been read


@device
def d_read_slots(src, dst, leaf):
    """Return source and destination of the lane's slot of a leaf."""
    slot = np.uint64(np.int64(leaf) * 32 + d_lane())
    return src[slot], dst[slot]


@device
def d_read_keys(pairs, begin, num_keys, leaf):
    """Return the lane's key of a leaf and its place there, 0 to 32; undefined if the leaf has fewer keys."""
    key = np.uint64(begin + (np.int32(d_lane()) if d_lane() < num_keys else 0))
    return pairs[SOURCES, key], pairs[TARGETS, key], np.int32(pairs[PLACES, key] - leaf * 32)


@device
def d_put_leaf(values, start, word, num_keys, place, edge, key):
    """The warp writes the elements of a leaf and its keys in order to shared memory, from ``start`` on.

    ``edge``: of the lane's slot; ``place``: of the lane's ``key`` in the leaf, 0 to 32.
    """
    lane, keys_before = np.int32(d_lane()), np.int32(0)
    for other in range(num_keys):
        keys_before = np.int32(keys_before + np.int32(d_shuffle(place, other) <= lane))
    if lane < num_keys:
        edges_before = cuda.popc(word) if place > 31 else d_count_lower(word, place)
        at = np.uint32(start + lane + np.int32(edges_before))
        values[at], values[np.uint32(at + np.uint32(NARROW_COLUMN))] = key.src, key.dst
    if (word >> np.uint32(lane)) & np.uint32(1) != 0:
        at = np.uint32(start + keys_before + np.int32(d_count_lower(word, lane)))
        values[at], values[np.uint32(at + np.uint32(NARROW_COLUMN))] = edge.src, edge.dst


@device
def d_merge_by_warp(slots, leaves, pairs, window, values):
    """The warp merges each leaf of a warp window with its keys, then writes the slots.

    Two leaves, both columns, are merged at once, so their reads overlap; meanwhile the next two are read.
    ``values`` is shared memory; each warp has a part of it.
    """
    first_leaf, num_leaves = window
    lane, size, last = np.int32(d_lane()), np.int32(num_leaves * 32), np.int32(num_leaves - 1)
    start = np.int32((cuda.threadIdx.x >> 5) * NARROW_SLOTS)
    row, column = d_read_slots(slots.src, slots.dst, first_leaf)
    row1, column1 = d_read_slots(slots.src, slots.dst, first_leaf + min(np.int32(1), last))
    word, begin, num_keys = d_read_list(leaves, window, lane * 32)
    if lane > last:
        word, num_keys = np.uint32(0), np.int32(0)
    begin, count = max(begin, np.int32(0)), np.int32(np.int32(cuda.popc(word)) + num_keys)
    ends = d_scan_lanes(count)
    elements, before = d_shuffle(ends, WARP - 1), np.int32(start + ends - count)
    for number in range(0, num_leaves, 2):  # behind the last leaf lanes have words of 0 and no keys
        leaf, leaf1, keys, keys1 = (
            first_leaf + number, first_leaf + number + 1, d_shuffle(num_keys, number), d_shuffle(num_keys, number + 1)
        )  # fmt: skip
        new_row, new_column, place = d_read_keys(pairs, d_shuffle(begin, number), keys, leaf)
        new_row1, new_column1, place1 = d_read_keys(pairs, d_shuffle(begin, number + 1), keys1, leaf1)
        next_row, next_column = d_read_slots(slots.src, slots.dst, first_leaf + min(np.int32(number + 2), last))
        next_row1, next_column1 = d_read_slots(slots.src, slots.dst, first_leaf + min(np.int32(number + 3), last))
        d_put_leaf(
            values, d_shuffle(before, number), np.uint32(d_shuffle(np.int32(word), number)), keys, place,
            Edge(row, column, 0), Edge(new_row, new_column, 0),
        )  # fmt: skip
        d_put_leaf(
            values, d_shuffle(before, number + 1), np.uint32(d_shuffle(np.int32(word), number + 1)), keys1, place1,
            Edge(row1, column1, 0), Edge(new_row1, new_column1, 0),
        )  # fmt: skip
        row, column, row1, column1 = next_row, next_column, next_row1, next_column1
    d_sync_warp()
    inverse = 1.0 / size
    for base in range(0, size, WARP):
        element = d_divide_by((base + lane + 1) * elements - 1, size, inverse)
        slots.dst[first_leaf * 32 + base + lane] = values[np.uint32(start + NARROW_COLUMN + element)]
        d_write_slots(slots, first_leaf, size, elements, base, values, start)
    d_sync_warp()  # the values have been read


@device
def d_merge_giant(slots, leaves, buckets, window, scratch, before, board, waits):
    """All blocks merge a grid window, each some of its leaves, to ``scratch``; then all write its slots.

    Two grid waits, after the first ``waits``. Behind the first, earlier contents of scratch have been read.
    """
    control, pairs, thread = buckets.control, buckets.pairs, np.int64(cuda.threadIdx.x)
    first_leaf, num_leaves = np.int64(window.first), np.int64(window.count)
    share = (num_leaves + cuda.gridDim.x - 1) // cuda.gridDim.x
    leaf = first_leaf + min(cuda.blockIdx.x * share, num_leaves)
    last = min(leaf + share, first_leaf + num_leaves)
    count = np.int64(0)
    for other in range(leaf + thread, last, cuda.blockDim.x):
        count += d_count_elements(leaves, other)
    count = d_sum_block(count, board)
    if thread == 0:
        control[SUMS + ROWS * MAX_RESIDENT_BLOCKS + cuda.blockIdx.x] = count
    d_sync_grid(control, waits + 1, GIANT_ARRIVALS)
    rank, elements = d_sum_blocks_before(control, ROWS, board), np.int64(0)
    for block in range(thread, cuda.gridDim.x, cuda.blockDim.x):
        elements += control[SUMS + ROWS * MAX_RESIDENT_BLOCKS + block]
    elements = d_sum_block(elements, board)
    while leaf < last:
        part = WindowLeaves(leaf, min(last - leaf, np.int64(MAX_LEAVES)))
        d_count_window(leaves, part, before)
        d_gather_column(slots.src, pairs[SOURCES], pairs[PLACES], leaves, part, before, scratch[0], rank)
        d_gather_column(slots.dst, pairs[TARGETS], pairs[PLACES], leaves, part, before, scratch[1], rank)
        rank += before[part.count]
        leaf += part.count
        cuda.syncthreads()  # the counts have been read
    d_sync_grid(control, waits + 2, GIANT_ARRIVALS)
    lane, size, inverse = d_lane(), num_leaves * 32, 1.0 / (num_leaves * 32)
    for base in range(cuda.grid(1) - lane, size, cuda.gridsize(1)):
        element = d_divide_by((base + lane + 1) * elements - 1, size, inverse)
        slots.dst[first_leaf * 32 + base + lane] = scratch[1, element]
        d_write_slots(slots, first_leaf, size, elements, base, scratch[0], 0)
