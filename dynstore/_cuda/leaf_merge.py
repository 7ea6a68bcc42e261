"""Merging new keys into single leaves on CUDA, in registers: what nearly all windows of a random batch are."""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import THREADS, cuda, kernel
from dynstore._cuda.leaves import d_write_rows_by_warp
from dynstore._cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle, d_sync_warp

__all__ = ["k_merge_leaves"]


@kernel
def k_merge_leaves(
    src, dst, weights, valid, offsets, first, end, low, high, num_windows, places, keys, new_src, new_dst, new_weights,
    far_rows,
):  # fmt: skip
    """One warp owns one window; one of a single leaf is merged with its keys and spread as in ``k_spread_edges``.

    Its lanes load a slot and a key each, and say where the element of each rank comes from (a slot, or 32 + a key);
    then each slot gets its own from the lane that has it. Without ``keys`` the new edges are as their places are.
    """
    origin = cuda.shared.array(THREADS, np.int32)
    lane, window = d_lane(), cuda.grid(1) >> 5
    board = (cuda.threadIdx.x >> 5) << 5
    if window < num_windows and end[window] - first[window] == 1:
        leaf, begin = first[window], low[window]
        slot, num_keys = leaf * 32 + lane, high[window] - low[window]
        word, row, column = np.uint32(valid[leaf]), src[slot], dst[slot]
        place, key_row, key_column, key = np.int64(64), row, column, np.int64(0)
        if lane < num_keys:
            place = places[begin + lane] - leaf * 32
            key = keys[begin + lane] if keys.shape[0] > 0 else begin + lane
            key_row, key_column = new_src[key], new_dst[key]
        keys_before = np.int64(0)
        for other in range(num_keys):
            if d_shuffle(place, other) <= lane:
                keys_before += 1
        if (word >> np.uint32(lane)) & np.uint32(1) != 0:
            rank = keys_before + d_count_lower(word, lane)
            origin[board + rank] = lane
        if lane < num_keys:
            edges_before = np.int64(cuda.popc(word)) if place > 31 else d_count_lower(word, place)
            origin[board + lane + edges_before] = 32 + lane
        d_sync_warp()
        elements = cuda.popc(word) + num_keys
        element = ((lane + 1) * elements - 1) >> 5
        previous = (lane * elements - 1) >> 5 if lane > 0 else -1
        source = np.int64(origin[board + element])
        is_key, source = source >= 32, source & 31
        old_row, old_column = d_shuffle(row, source), d_shuffle(column, source)
        key_row, key_column = d_shuffle(key_row, source), d_shuffle(key_column, source)
        if weights.shape[0] > 0:
            weight, key = d_shuffle(weights[slot], source), d_shuffle(key, source)
            weights[slot] = new_weights[key] if is_key else weight
        row, column = (key_row, key_column) if is_key else (old_row, old_column)
        src[slot] = row
        dst[slot] = column
        word = d_ballot(element != previous)
        if lane == 0:
            valid[leaf] = word
        row_before = d_shuffle(row, (lane - 1) & 31)
        d_write_rows_by_warp(offsets, np.int64(row_before if lane > 0 else row), np.int64(row), slot, far_rows)
