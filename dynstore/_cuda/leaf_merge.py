"""Merging new keys into single leaves on CUDA, in registers: what nearly all windows of a random batch are."""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import THREADS, cuda, device, kernel
from dynstore._cuda.leaves import d_write_rows_by_warp
from dynstore._cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle, d_sync_warp
from dynstore._cuda.windows import WINDOWS

__all__ = ["d_merge_leaf", "d_take_shown", "k_merge_leaves"]


@device
def d_merge_leaf(origin, word, place, num_keys):
    """Merge a leaf's elements with keys by rank, and spread them evenly over its 32 slots. All lanes of the warp call.

    Parameters
    ----------
    origin : int32 shared array with an entry a thread of the block
    word : uint32
        Which slots have an element.
    place : integer
        Of the lane's key, if it is one of ``num_keys`` ascending ones: the slot, 0 to 32, that it goes before.

    Returns
    -------
    source : int32
        Where the element that the lane's slot is to show is now: a slot, or 32 + a key.
    shown : uint32
        Which slots show an element that the slot before does not: the new ``word``.
    """
    lane = np.uint32(d_lane())
    board = np.uint32(cuda.threadIdx.x) - lane
    mine, keys_before = np.int32(place), np.uint32(0)
    for other in range(np.int32(num_keys)):
        keys_before += np.uint32(d_shuffle(mine, other) <= np.int32(lane))
    d_sync_warp()  # what the array had before has been read
    if (word >> lane) & np.uint32(1) != 0:
        origin[np.uint32(board + keys_before + np.uint32(d_count_lower(word, lane)))] = lane
    if np.int32(lane) < num_keys:
        edges_before = cuda.popc(word) if mine > 31 else d_count_lower(word, mine)
        origin[np.uint32(board + lane + np.uint32(edges_before))] = np.uint32(32) + lane
    d_sync_warp()
    elements = np.uint32(cuda.popc(word)) + np.uint32(num_keys)
    following = np.uint32(lane * elements + elements - np.uint32(1))
    element = following >> np.uint32(5)
    begins = lane == 0 or (following - elements) >> np.uint32(5) != element
    return np.int32(origin[np.uint32(board + element)]), d_ballot(begins)


@device
def d_take_shown(source, value, key_value):
    """Return what the lane's slot is to show, from the lane that has it in its slot (``value``) or in its key.

    ``source``: as :func:`d_merge_leaf` gave it. All lanes of the warp call.
    """
    shown, key_shown = d_shuffle(value, source & 31), d_shuffle(key_value, source & 31)
    return key_shown if source > 31 else shown


@kernel
def k_merge_leaves(
    src, dst, weights, valid, offsets, new_src, new_dst, new_weights, first, end, low, high, places, keys, granted,
    far_rows,
):  # fmt: skip
    """Warps stride over windows; one of a single leaf is merged with its keys and spread as in ``k_spread_edges``.

    Its lanes load a slot and a key each, and say where the element of each rank comes from (a slot, or 32 + a key);
    then each slot gets its own from the lane that has it.
    """
    origin = cuda.shared.array(THREADS, np.int32)
    lane = d_lane()
    for window in range(cuda.grid(1) >> 5, granted[WINDOWS], cuda.gridsize(1) >> 5):
        if end[window] - first[window] == 1:
            leaf, begin = first[window], low[window]
            slot, num_keys = leaf * 32 + lane, high[window] - low[window]
            word, row, column = np.uint32(valid[leaf]), src[slot], dst[slot]
            place, key_row, key_column, key = np.int64(64), row, column, np.int64(0)
            if lane < num_keys:
                place, key = places[begin + lane] - leaf * 32, keys[begin + lane]
                key_row, key_column = new_src[key], new_dst[key]
            source, shown = d_merge_leaf(origin, word, place, num_keys)
            row, column = d_take_shown(source, row, key_row), d_take_shown(source, column, key_column)
            if weights.shape[0] > 0:
                weight, key = d_shuffle(weights[slot], source & 31), d_shuffle(key, source & 31)
                weights[slot] = new_weights[key] if source > 31 else weight
            src[slot] = row
            dst[slot] = column
            if lane == 0:
                valid[leaf] = shown
            row_before = d_shuffle(row, (lane - 1) & 31)
            d_write_rows_by_warp(offsets, np.int64(row_before if lane > 0 else row), np.int64(row), slot, far_rows)
