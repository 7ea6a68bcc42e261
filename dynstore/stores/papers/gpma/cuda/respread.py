"""Inserting one key into a segment of a packed memory array on CUDA, in place, by one warp."""

from __future__ import annotations

import numpy as np

from dynstore.cuda.compiler import WARP, cuda, device
from dynstore.cuda.warp import d_ballot, d_lane, d_sync_warp
from dynstore.stores.pma.cuda.segment_offsets import d_fill_rows_by_warp

__all__ = ["d_respread"]


@device
def d_pack_left(src, dst, weights, valid, first, end):
    """Move the edges in the slots [first, end) to the left end, in order. Return their number."""
    base, behind = first, first
    while base < end:
        slot, word = base + d_lane(), np.uint32(valid[base >> 5])
        row, column = src[slot], dst[slot]
        held = (word >> np.uint32(d_lane())) & np.uint32(1) != 0
        target = behind + np.int64(cuda.popc(word & ((np.uint32(1) << np.uint32(d_lane())) - np.uint32(1))))
        d_sync_warp()  # all lanes have read
        if held:
            src[target] = row
            dst[target] = column
        if weights.shape[0] > 0:
            weight = weights[slot]
            d_sync_warp()
            if held:
                weights[target] = weight
        behind += np.int64(cuda.popc(word))
        base += WARP
    d_sync_warp()
    return behind - first


@device
def d_count_below(src, dst, first, count, row, key):
    """Return how many of ``count`` edges without gaps, from slot ``first`` on, are below (row, key)."""
    low, high = np.int64(0), count
    while low < high:
        middle = (low + high) >> 1
        slot = first + middle
        if src[slot] < row or (src[slot] == row and dst[slot] < key):
            low = middle + 1
        else:
            high = middle
    return low


@device
def d_respread(edges, valid, offsets, first, end, new_keys, i):
    """Redistribute the edges in the slots [first, end) with the i-th new key among them; all lanes of a warp call.

    First the edges move to the left without gaps. Then each slot, from the right, takes its element, which is never to
    the right of it. Row offsets inside are written; those at the edges are left to the caller.
    """
    (src, dst, weights), new_row, new_column = edges, new_keys.src[i], new_keys.dst[i]
    count = d_pack_left(src, dst, weights, valid, first, end)
    rank = d_count_below(src, dst, first, count, new_row, new_column)
    count, size, base = count + 1, end - first, end - WARP
    while base >= first:
        slot = base + d_lane()
        place = slot - first
        element = ((place + 1) * count - 1) // size
        previous = (place * count - 1) // size if place > 0 else np.int64(-1)
        origin = first + element - (1 if element > rank else 0)
        row, column = src[origin], dst[origin]
        if element == rank:
            row, column = new_row, new_column
        row_before = row
        if previous == rank:
            row_before = new_row
        elif place > 0:
            row_before = src[first + previous - (1 if previous > rank else 0)]
        d_sync_warp()  # all lanes have read
        src[slot] = row
        dst[slot] = column
        if weights.shape[0] > 0:
            weight = new_keys.weights[i] if element == rank else weights[origin]
            d_sync_warp()
            weights[slot] = weight
        word = d_ballot(element != previous)
        if d_lane() == 0:
            valid[slot >> 5] = word
        d_fill_rows_by_warp(offsets, np.int64(row_before), np.int64(row), slot)
        base -= WARP
    d_sync_warp()
