"""Merging updates into the wide windows of one height on CUDA: by the whole GPU, through scratch in global memory.

All of these windows but the last of the array have the same size. So their leaves are numbered through as items: the
window of an item is ``item >> height``. A kernel ends where all threads must have written; ``control`` starts as zeros.
"""

from __future__ import annotations

import numpy as np

from dynstore.cuda.block import BOARD, d_scan_tile
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.grid import d_chunk, d_leave_sum, d_sum_blocks_before, d_sync_grid
from dynstore.cuda.warp import d_ballot, d_count_lower, d_lane
from dynstore.stores.papers.gpma_level.cuda.small_windows import d_end_of_keys, d_find_place
from dynstore.stores.pma.cuda.redistribute import d_count_before_lanes, d_find_window
from dynstore.stores.pma.cuda.segment_offsets import d_fill_rows_by_warp
from dynstore.stores.table.cuda.search import d_test_bit

__all__ = ["k_gather_items", "k_place_items", "k_scan_items", "k_spread_items"]


@device
def d_count_items(first, end, num_windows, height):
    """Return how many leaves the windows have; only the last one can be narrower than the others."""
    last = num_windows - 1
    return (np.int64(last) << height) + np.int64(end[last]) - np.int64(first[last])


@kernel
def k_scan_items(
    src, dst, valid, first, end, low, num_windows, height, keys, num_keys, new_src, new_dst, places, before, control
):
    """Find the slot that each key goes before, and count the edges before each item; one grid wait."""
    board = cuda.shared.array(BOARD, np.int64)
    for k in range(cuda.grid(1), num_keys, cuda.gridsize(1)):
        window, key = d_find_window(low, num_windows, k), keys[k]
        places[k] = d_find_place(
            src, dst, np.int64(first[window]) * 32, np.int64(end[window]) * 32, new_src[key], new_dst[key]
        )
    num_items = d_count_items(first, end, num_windows, height)
    base, chunk_end = d_chunk(num_items)
    edges = np.int64(0)
    for item in range(base + cuda.threadIdx.x, chunk_end, cuda.blockDim.x):
        window = item >> height
        edges += np.int64(cuda.popc(valid[first[window] + item - (window << height)]))
    d_leave_sum(control, 0, edges, board)
    d_sync_grid(control, 1)
    if cuda.grid(1) == 0:
        before[num_items] = control[0]
    rank = d_sum_blocks_before(control, 0, board)
    while base < chunk_end:
        item = base + cuda.threadIdx.x
        edges = np.int64(0)
        if item < chunk_end:
            window = item >> height
            edges = np.int64(cuda.popc(valid[first[window] + item - (window << height)]))
        below, total = d_scan_tile(edges, board)
        if item < chunk_end:
            before[item] = rank + below
        rank += total
        base += cuda.blockDim.x


@kernel
def k_gather_items(
    src, dst, weights, valid, first, end, low, num_windows, height, num_keys, places, before, t_src, t_dst, t_weights
):
    """Warps stride over the items; each lane sends its slot's edge to its rank: the edges and the keys before it."""
    num_items, item = d_count_items(first, end, num_windows, height), np.int64(cuda.grid(1) >> 5)
    while item < num_items:
        window = item >> height
        leaf = np.int64(first[window]) + item - (window << height)
        slot = leaf * 32 + d_lane()
        rank = before[item] + d_count_lower(valid[leaf], d_lane())
        rank += d_count_before_lanes(places, low[window], d_end_of_keys(low, window, num_windows, num_keys), slot)
        if d_test_bit(valid, slot):
            t_src[rank] = src[slot]
            t_dst[rank] = dst[slot]
            if weights.shape[0] > 0:
                t_weights[rank] = weights[slot]
        item += cuda.gridsize(1) >> 5


@kernel
def k_place_items(
    valid, first, low, num_windows, height, keys, num_keys, places, before, new_src, new_dst, new_weights,
    t_src, t_dst, t_weights,
):  # fmt: skip
    """One thread owns one key and sends it to its rank: its number plus the edges before its place."""
    k = np.int64(cuda.grid(1))
    if k < num_keys:
        window, place, key = d_find_window(low, num_windows, k), np.int64(places[k]), keys[k]
        leaf = place >> 5
        rank = k + before[(window << height) + leaf - first[window]]
        if place & 31 != 0:
            rank += d_count_lower(valid[leaf], place & 31)
        t_src[rank] = new_src[key]
        t_dst[rank] = new_dst[key]
        if t_weights.shape[0] > 0:
            t_weights[rank] = new_weights[key]


@kernel
def k_spread_items(
    src, dst, weights, valid, offsets, first, end, low, num_windows, height, num_keys, before, t_src, t_dst, t_weights
):
    """Warps stride over the items and write them: slot s of c shows element floor(((s + 1) n - 1) / c)."""
    num_items, item = d_count_items(first, end, num_windows, height), np.int64(cuda.grid(1) >> 5)
    while item < num_items:
        window = item >> height
        leaf, begin, size = np.int64(first[window]), window << height, (np.int64(end[window]) - first[window]) * 32
        base = before[begin] + low[window]
        elements = before[min(begin + (np.int64(1) << height), num_items)] - base
        elements += d_end_of_keys(low, window, num_windows, num_keys)
        place = (item - begin) * 32 + d_lane()
        element = ((place + 1) * elements - 1) // size
        previous = (place * elements - 1) // size if place > 0 else np.int64(-1)
        slot, row = leaf * 32 + place, np.int64(t_src[base + element])
        src[slot] = row
        dst[slot] = t_dst[base + element]
        if weights.shape[0] > 0:
            weights[slot] = t_weights[base + element]
        word = d_ballot(element != previous)
        if d_lane() == 0:
            valid[slot >> 5] = word
        row_before = np.int64(t_src[base + previous]) if place > 0 else row
        d_fill_rows_by_warp(offsets, row_before, row, slot)
        item += cuda.gridsize(1) >> 5
