"""Merging new keys into single leaves on CUDA, in registers: what nearly all windows of a random batch are."""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import THREADS, cuda, kernel
from dynstore._cuda.leaves import d_write_rows_by_warp
from dynstore._cuda.warp import d_ballot, d_lane, d_shuffle, d_sync_warp

__all__ = ["k_merge_leaves"]


@kernel
def k_merge_leaves(
    src, dst, weights, valid, offsets, first, end, low, high, num_windows, places, keys, new_src, new_dst, new_weights
):
    """One warp owns one window; one of a single leaf is merged with its keys and spread as in ``k_spread_edges``.

    Its lanes say where the element of each rank comes from (a slot, or 32 + a key); then each slot fetches its own.
    """
    origin = cuda.shared.array(THREADS, np.int32)
    lane, window = d_lane(), cuda.grid(1) >> 5
    board = (cuda.threadIdx.x >> 5) << 5
    if window < num_windows and end[window] - first[window] == 1:
        leaf, begin = first[window], low[window]
        slot, num_keys = leaf * 32 + lane, high[window] - low[window]
        word = np.uint32(valid[leaf])
        place = np.int64(64)
        if lane < num_keys:
            place = places[begin + lane] - leaf * 32
        keys_before = np.int64(0)
        for other in range(num_keys):
            if d_shuffle(place, other) <= lane:
                keys_before += 1
        if (word >> np.uint32(lane)) & np.uint32(1) != 0:
            rank = keys_before + cuda.popc(word & ((np.uint32(1) << np.uint32(lane)) - np.uint32(1)))
            origin[board + rank] = lane
        if lane < num_keys:
            below = word if place > 31 else word & ((np.uint32(1) << np.uint32(place)) - np.uint32(1))
            origin[board + lane + cuda.popc(below)] = 32 + lane
        d_sync_warp()
        elements = cuda.popc(word) + num_keys
        element = ((lane + 1) * elements - 1) >> 5
        previous = (lane * elements - 1) >> 5 if lane > 0 else -1
        source = np.int64(origin[board + element])
        old_row, old_column = d_shuffle(src[slot], source & 31), d_shuffle(dst[slot], source & 31)
        key = np.int64(keys[begin + source - 32]) if source >= 32 else np.int64(0)
        row = np.int64(new_src[key] if source >= 32 else old_row)
        column = new_dst[key] if source >= 32 else old_column
        if weights.shape[0] > 0:
            old_weight = d_shuffle(weights[slot], source & 31)
            weights[slot] = new_weights[key] if source >= 32 else old_weight
        src[slot] = row
        dst[slot] = column
        word = d_ballot(element != previous)
        if lane == 0:
            valid[leaf] = word
        row_before = d_shuffle(row, (lane - 1) & 31)
        d_write_rows_by_warp(offsets, row_before if lane > 0 else row, row, slot)
