"""Merging updates into the windows of one height on CUDA: a warp or a block a window, by its size.

As in section 5.2 of GPMA+'s paper, a warp merges a window of one leaf in registers, and a block merges a larger one in
shared memory if it fits; ``device_windows.py`` merges the wider ones. Windows below have been written, so places are
searched anew. Row offsets inside a window are written; those at its edges are left to ``k_fill_edge_rows``.
"""

from __future__ import annotations

import numpy as np

from dynstore.cuda.compiler import SIMULATED, THREADS, cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle
from dynstore.stores.pma.cuda.leaf_merge import d_merge_leaf
from dynstore.stores.pma.cuda.redistribute import d_count_not_above
from dynstore.stores.pma.cuda.segment_offsets import d_fill_rows_by_warp

__all__ = [
    "BLOCK_HEIGHT",
    "d_end_of_keys",
    "d_find_place",
    "k_merge_by_blocks",
    "k_merge_by_warps",
]

# The height of the widest windows that a block merges; lower in the simulator, so that small graphs have wider ones.
BLOCK_HEIGHT = 2 if SIMULATED else 5
BLOCK_SLOTS = 32 << BLOCK_HEIGHT
BLOCK_COUNTS = (1 << BLOCK_HEIGHT) + 1


@device
def d_find_place(src, dst, first, end, row, key):
    """Return the first slot in [first, end) whose key is not below (row, key), else ``end``."""
    while first < end:
        middle = (first + end) >> 1
        if src[middle] < row or (src[middle] == row and dst[middle] < key):
            first = middle + 1
        else:
            end = middle
    return first


@device
def d_end_of_keys(low, window, num_windows, num_keys):
    """Return the last key + 1 of a window."""
    return np.int64(low[window + 1]) if window + 1 < num_windows else np.int64(num_keys)


@kernel
def k_merge_by_warps(
    src, dst, weights, valid, offsets, first, low, num_windows, keys, num_keys, new_src, new_dst, new_weights
):
    """One warp owns one leaf: lanes find where the element of each rank comes from (a slot, or 32 + a key)."""
    origin = cuda.shared.array(THREADS, np.int32)
    lane, window = d_lane(), np.int64(cuda.grid(1) >> 5)
    if window < num_windows:
        leaf, begin = np.int64(first[window]), np.int64(low[window])
        slot, count = leaf * 32 + lane, d_end_of_keys(low, window, num_windows, num_keys) - begin
        word, place = np.uint32(valid[leaf]), np.int64(64)
        if lane < count:
            key = keys[begin + lane]
            place = d_find_place(src, dst, leaf * 32, leaf * 32 + 32, new_src[key], new_dst[key]) - leaf * 32
        source, shown = d_merge_leaf(origin, word, place, count)
        row, column = d_shuffle(src[slot], source & 31), d_shuffle(dst[slot], source & 31)
        key = np.int64(keys[begin + source - 32]) if source >= 32 else np.int64(0)
        if source >= 32:
            row, column = new_src[key], new_dst[key]
        if weights.shape[0] > 0:
            weight = d_shuffle(weights[slot], source & 31)
            weights[slot] = new_weights[key] if source >= 32 else weight
        src[slot] = row
        dst[slot] = column
        if lane == 0:
            valid[leaf] = shown
        row_before = d_shuffle(row, (lane - 1) & 31)
        d_fill_rows_by_warp(offsets, np.int64(row_before if lane > 0 else row), np.int64(row), slot)


@kernel
def k_merge_by_blocks(
    src, dst, weights, valid, offsets, first, end, low, num_windows, keys, num_keys, new_src, new_dst, new_weights
):
    """One block owns one window: its elements go to shared memory, in order, and back to the slots evenly."""
    rows = cuda.shared.array(BLOCK_SLOTS, np.int64)
    columns = cuda.shared.array(BLOCK_SLOTS, np.int64)
    values = cuda.shared.array(BLOCK_SLOTS, np.float64)
    places = cuda.shared.array(BLOCK_SLOTS, np.int32)
    before = cuda.shared.array(BLOCK_COUNTS, np.int32)
    window, thread = np.int64(cuda.blockIdx.x), np.int64(cuda.threadIdx.x)
    leaf, begin = np.int64(first[window]), np.int64(low[window])
    num_leaves, count = np.int64(end[window]) - leaf, d_end_of_keys(low, window, num_windows, num_keys) - begin
    start, size = leaf * 32, num_leaves * 32
    for k in range(thread, count, cuda.blockDim.x):
        key = keys[begin + k]
        places[k] = d_find_place(src, dst, start, start + size, new_src[key], new_dst[key]) - start
    if thread == 0:
        edges = np.int64(0)
        for other in range(num_leaves):
            before[other] = edges
            edges += np.int64(cuda.popc(valid[leaf + other]))
        before[num_leaves] = edges
    cuda.syncthreads()
    for place in range(thread, size, cuda.blockDim.x):
        word = np.uint32(valid[leaf + (place >> 5)])
        if (word >> np.uint32(place & 31)) & np.uint32(1) != 0:
            below = word & ((np.uint32(1) << np.uint32(place & 31)) - np.uint32(1))
            rank = (
                before[place >> 5] + np.int64(cuda.popc(below)) + d_count_not_above(places, np.int64(0), count, place)
            )
            rows[rank] = src[start + place]
            columns[rank] = dst[start + place]
            if weights.shape[0] > 0:
                values[rank] = weights[start + place]
    for k in range(thread, count, cuda.blockDim.x):
        goes_before, key = np.int64(places[k]), keys[begin + k]
        rank = k + np.int64(before[goes_before >> 5])
        if goes_before & 31 != 0:
            word = np.uint32(valid[leaf + (goes_before >> 5)])
            rank += np.int64(cuda.popc(word & ((np.uint32(1) << np.uint32(goes_before & 31)) - np.uint32(1))))
        rows[rank] = new_src[key]
        columns[rank] = new_dst[key]
        if weights.shape[0] > 0:
            values[rank] = new_weights[key]
    cuda.syncthreads()
    elements = np.int64(before[num_leaves]) + count
    for place in range(thread, size, cuda.blockDim.x):
        element = ((place + 1) * elements - 1) // size
        previous = (place * elements - 1) // size if place > 0 else np.int64(-1)
        src[start + place] = rows[element]
        dst[start + place] = columns[element]
        if weights.shape[0] > 0:
            weights[start + place] = values[element]
        word = d_ballot(element != previous)
        if d_lane() == 0:
            valid[leaf + (place >> 5)] = word
        row_before = rows[previous] if place > 0 else rows[element]
        d_fill_rows_by_warp(offsets, row_before, rows[element], start + place)
