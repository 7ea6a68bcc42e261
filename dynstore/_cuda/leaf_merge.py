"""Merging new keys into windows of a leaf, in registers, or of a few: what those of a random batch are."""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import SIMULATED, THREADS, cuda, device, kernel
from dynstore._cuda.leaves import d_divide, d_write_rows_by_warp
from dynstore._cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle, d_sync_warp

__all__ = ["MAX_HEIGHT", "d_merge_leaf", "k_merge_leaves", "k_merge_lists"]

# The height of the widest windows that ``k_merge_lists`` takes, at most 5; lower in the simulator, for small graphs.
MAX_HEIGHT = 2 if SIMULATED else 5
MAX_SLOTS = 32 << MAX_HEIGHT


@device
def d_merge_leaf(origin, word, place, num_keys):
    """Merge a leaf's elements with keys by rank, and spread them evenly over its 32 slots. All lanes of the warp call.

    Parameters
    ----------
    origin : int32 shared array with an entry a thread of the block
    word : uint32
        Which slots have an element.
    place : int64
        Of the lane's key, if it is one of ``num_keys`` ascending ones: the slot, 0 to 32, that it goes before.

    Returns
    -------
    source : int64
        Where the element that the lane's slot is to show is now: a slot, or 32 + a key.
    shown : uint32
        Which slots show an element that the slot before does not: the new ``word``.
    """
    lane, board = d_lane(), (cuda.threadIdx.x >> 5) << 5
    keys_before = np.int64(0)
    for other in range(num_keys):
        if d_shuffle(place, other) <= lane:
            keys_before += 1
    if (word >> np.uint32(lane)) & np.uint32(1) != 0:
        origin[board + keys_before + d_count_lower(word, lane)] = lane
    if lane < num_keys:
        edges_before = np.int64(cuda.popc(word)) if place > 31 else d_count_lower(word, place)
        origin[board + lane + edges_before] = 32 + lane
    d_sync_warp()
    elements = np.int64(cuda.popc(word)) + num_keys
    element = ((lane + 1) * elements - 1) >> 5
    previous = (lane * elements - 1) >> 5 if lane > 0 else np.int64(-1)
    return np.int64(origin[board + element]), d_ballot(element != previous)


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
    if window < num_windows and end[window] - first[window] == 1:
        leaf, begin = first[window], low[window]
        slot, num_keys = leaf * 32 + lane, high[window] - low[window]
        word, row, column = np.uint32(valid[leaf]), src[slot], dst[slot]
        place, key_row, key_column, key = np.int64(64), row, column, np.int64(0)
        if lane < num_keys:
            place = places[begin + lane] - leaf * 32
            key = keys[begin + lane] if keys.shape[0] > 0 else begin + lane
            key_row, key_column = new_src[key], new_dst[key]
        source, shown = d_merge_leaf(origin, word, place, num_keys)
        is_key, source = source >= 32, source & 31
        old_row, old_column = d_shuffle(row, source), d_shuffle(column, source)
        key_row, key_column = d_shuffle(key_row, source), d_shuffle(key_column, source)
        if weights.shape[0] > 0:
            weight, key = d_shuffle(weights[slot], source), d_shuffle(key, source)
            weights[slot] = new_weights[key] if is_key else weight
        row, column = (key_row, key_column) if is_key else (old_row, old_column)
        src[slot] = row
        dst[slot] = column
        if lane == 0:
            valid[leaf] = shown
        row_before = d_shuffle(row, (lane - 1) & 31)
        d_write_rows_by_warp(offsets, np.int64(row_before if lane > 0 else row), np.int64(row), slot, far_rows)


@kernel
def k_merge_lists(
    src, dst, valid, offsets, first, end, low, high, items, wide, places, new_src, new_dst, far_rows
):  # fmt: skip
    """One block owns one window of several leaves: each is merged with its keys, by a warp, to shared memory.

    Then all slots of the window are written, as in ``k_spread_edges``. Edges are int32, without weights. For ``items``
    and ``wide`` see ``Lists``.
    """
    rows = cuda.shared.array(MAX_SLOTS, np.int32)
    columns = cuda.shared.array(MAX_SLOTS, np.int32)
    before = cuda.shared.array(33, np.int32)
    lane, thread = d_lane(), np.int64(cuda.threadIdx.x)
    window = np.int64(wide[cuda.blockIdx.x])
    first_leaf, size = first[window], (end[window] - first[window]) * 32
    if thread < 32:  # the elements of each leaf, then their running sums
        count = np.int64(0)
        if lane * 32 < size:
            item = np.int64(items[first_leaf + lane]) - 1
            count = np.int64(cuda.popc(valid[first_leaf + lane])) + (high[item] - low[item] if item >= 0 else 0)
        for step in (1, 2, 4, 8, 16):
            other = d_shuffle(count, (lane - step) & 31)
            if lane >= step:
                count += other
        before[lane + 1] = count
        if lane == 0:
            before[0] = 0
    cuda.syncthreads()
    for base in range(thread - lane, size, cuda.blockDim.x):
        leaf = first_leaf + (base >> 5)
        slot, item, num_keys, begin = leaf * 32 + lane, np.int64(items[leaf]) - 1, np.int64(0), np.int64(0)
        if item >= 0:
            begin, num_keys = low[item], high[item] - low[item]
        word, place, keys_before = np.uint32(valid[leaf]), np.int64(64), np.int64(0)
        if lane < num_keys:
            place = places[begin + lane] - leaf * 32
        for other in range(num_keys):
            if d_shuffle(place, other) <= lane:
                keys_before += 1
        if (word >> np.uint32(lane)) & np.uint32(1) != 0:
            rank = before[base >> 5] + keys_before + d_count_lower(word, lane)
            rows[rank] = src[slot]
            columns[rank] = dst[slot]
        if lane < num_keys:
            rank = before[base >> 5] + lane + (np.int64(cuda.popc(word)) if place > 31 else d_count_lower(word, place))
            rows[rank] = new_src[begin + lane]
            columns[rank] = new_dst[begin + lane]
    cuda.syncthreads()
    elements = np.int64(before[32])
    for base in range(thread - lane, size, cuda.blockDim.x):
        place = base + lane
        slot = first_leaf * 32 + place
        element = d_divide((place + 1) * elements - 1, size)
        previous = d_divide(place * elements - 1, size) if place > 0 else np.int64(-1)
        row = np.int64(rows[element])
        src[slot] = row
        dst[slot] = columns[element]
        word = d_ballot(element != previous)
        if lane == 0:
            valid[slot >> 5] = word
        d_write_rows_by_warp(offsets, np.int64(rows[previous]) if place > 0 else row, row, slot, far_rows)
