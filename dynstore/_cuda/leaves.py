"""Bringing a packed memory array's windows to scratch, in order, and spreading them back, on CUDA."""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import WARP, cuda, device, kernel
from dynstore._cuda.search import d_test_bit
from dynstore._cuda.warp import d_ballot, d_lane, d_shuffle
from dynstore.slots import ABSENT, DEAD, PRESENT

__all__ = [
    "k_clear_located",
    "k_gather_edges",
    "k_place_keys",
    "k_set_located",
    "k_spread_edges",
    "k_update_weights",
    "k_write_edge_rows",
]


@device
def d_count_not_above(places, low, high, slot):
    """Return the first index in [low, high) whose place is above ``slot``, else ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if places[middle] <= slot:
            low = middle + 1
        else:
            high = middle
    return low


@device
def d_find_window(start, num_windows, leaf):
    """Return the window that holds the ``leaf``-th leaf of all windows."""
    low, high = np.int64(0), np.int64(num_windows)
    while high - low > 1:
        middle = (low + high) >> 1
        if start[middle] <= leaf:
            low = middle
        else:
            high = middle
    return low


@device
def d_count_valid_before(valid, before, first, slot):
    """Count the edges in the slots from leaf ``first`` up to ``slot`` (exclusive)."""
    leaf = slot >> 5
    count = before[leaf] - before[first]
    if slot & 31 != 0:
        count += cuda.popc(valid[leaf] & ((np.uint32(1) << np.uint32(slot & 31)) - np.uint32(1)))
    return count


@device
def d_skip_right(offsets, low, high, slot):
    """Return the first row in (low, high] whose start is not below ``slot``, else high + 1."""
    first, end = low + 1, high + 1
    while first < end:
        middle = (first + end) >> 1
        if offsets[middle] < slot:
            first = middle + 1
        else:
            end = middle
    return first


@device
def d_write_rows(offsets, low, high, slot):
    """Let the rows in (low, high] start at ``slot``, writing only those that do not.

    Their old starts ascend and nobody else writes them: those below ``slot`` come first, those above it last.
    """
    middle = d_skip_right(offsets, low, high, slot)
    end = d_skip_right(offsets, middle - 1, high, slot + 1)
    for row in range(low + 1, middle):
        offsets[row] = slot
    for row in range(end, high + 1):
        offsets[row] = slot


@device
def d_write_rows_by_warp(offsets, low, high, slot):
    """Every lane brings its own (low, high] and slot; long ranges are written by all lanes together."""
    long = high - low > WARP
    if not long and low < high:
        d_write_rows(offsets, low, high, slot)
    pending = d_ballot(long)
    while pending != 0:
        lane = cuda.ffs(np.int32(pending)) - 1
        shared_low, shared_high, shared_slot = d_shuffle(low, lane), d_shuffle(high, lane), d_shuffle(slot, lane)
        row = shared_low + 1 + d_lane()
        while row <= shared_high:
            offsets[row] = shared_slot
            row += WARP
        pending &= pending - np.uint32(1)


@kernel
def k_set_located(weights, valid, positions, states, new_weights, add):
    """One thread owns one key: a present or dead one gets its weight, a dead one its bit (atomic or)."""
    i = cuda.grid(1)
    if i < positions.shape[0] and states[i] != ABSENT:
        slot = positions[i]
        if weights.shape[0] > 0:
            if add and states[i] == PRESENT:
                weights[slot] += new_weights[i]
            else:
                weights[slot] = new_weights[i]
        if states[i] == DEAD:
            cuda.atomic.or_(valid, slot >> 5, np.uint32(1) << np.uint32(slot & 31))


@kernel
def k_clear_located(valid, positions, states):
    """One thread owns one key: a present one loses its bit (atomic and)."""
    i = cuda.grid(1)
    if i < positions.shape[0] and states[i] == PRESENT:
        slot = positions[i]
        cuda.atomic.and_(valid, slot >> 5, ~(np.uint32(1) << np.uint32(slot & 31)))


@kernel
def k_gather_edges(
    src, dst, weights, valid, before, places, first, low, high, start, num_windows, num_leaves, t_src, t_dst, t_weights
):
    """Warps stride over the windows' leaves; each lane sends its slot's edge to its rank in scratch.

    Rank in the window: the edges before it, and the pending keys that go before its slot.
    """
    lane = d_lane()
    warp = cuda.grid(1) >> 5
    while warp < num_leaves:
        window = d_find_window(start, num_windows, warp)
        leaf = first[window] + warp - start[window]
        slot = leaf * 32 + lane
        if d_test_bit(valid, slot):
            keys = d_count_not_above(places, low[window], high[window], slot) - low[window]
            rank = start[window] * 32 + d_count_valid_before(valid, before, first[window], slot) + keys
            t_src[rank] = src[slot]
            t_dst[rank] = dst[slot]
            if weights.shape[0] > 0:
                t_weights[rank] = weights[slot]
        warp += cuda.gridsize(1) >> 5


@kernel
def k_place_keys(
    valid, before, places, keys, first, low, start, num_windows, new_src, new_dst, new_weights, t_src, t_dst, t_weights
):
    """One thread owns one pending key and sends it to its rank in scratch: its index, and the edges below it."""
    i = cuda.grid(1)
    if i < keys.shape[0]:
        window = d_find_window(low, num_windows, i)
        edges = d_count_valid_before(valid, before, first[window], places[i])
        rank = start[window] * 32 + (i - low[window]) + edges
        key = keys[i]
        t_src[rank] = new_src[key]
        t_dst[rank] = new_dst[key]
        if t_weights.shape[0] > 0:
            t_weights[rank] = new_weights[key]


@kernel
def k_update_weights(valid, before, places, positions, states, new_weights, add, t_weights):
    """One thread owns one key of the batch; a present one changes its edge's weight in scratch (one window)."""
    i = cuda.grid(1)
    if i < positions.shape[0] and states[i] == PRESENT:
        slot = positions[i]
        rank = d_count_valid_before(valid, before, 0, slot) + d_count_not_above(places, 0, places.shape[0], slot)
        if add:
            t_weights[rank] += new_weights[i]
        else:
            t_weights[rank] = new_weights[i]


@kernel
def k_spread_edges(
    src, dst, weights, valid, offsets, before, first, end, low, high, start, num_windows, num_leaves, total,
    t_src, t_dst, t_weights,
):  # fmt: skip
    """Warps stride over the windows' leaves and write them: slot s of c shows element floor(((s + 1) n - 1) / c).

    The ballot of "first slot to show it" is the leaf's word. Rows that begin inside the window get their start;
    those at its first slot are left to ``k_write_edge_rows``. ``total`` >= 0 is the one window's element count.
    """
    lane = d_lane()
    warp = cuda.grid(1) >> 5
    while warp < num_leaves:
        window = d_find_window(start, num_windows, warp)
        a, b = first[window], end[window]
        count = np.int64(total)
        if total < 0:
            count = before[b] - before[a] + high[window] - low[window]
        size = (b - a) * 32
        place = (warp - start[window]) * 32 + lane
        base = start[window] * 32
        element = ((place + 1) * count - 1) // size
        previous = (place * count - 1) // size if place > 0 else np.int64(-1)
        slot = a * 32 + place
        row = np.int64(t_src[base + element])
        src[slot] = row
        dst[slot] = t_dst[base + element]
        if weights.shape[0] > 0:
            weights[slot] = t_weights[base + element]
        word = d_ballot(element != previous)
        if lane == 0:
            valid[slot >> 5] = word
        row_before = np.int64(t_src[base + previous]) if place > 0 else row
        d_write_rows_by_warp(offsets, row_before, row, slot)
        warp += cuda.gridsize(1) >> 5


@kernel
def k_write_edge_rows(src, offsets, first, end, num_windows):
    """One warp owns one window: the rows between its neighbour's slots and its own, at both edges.

    At an edge shared with the next window only that one writes.
    """
    lane = d_lane()
    window = cuda.grid(1) >> 5
    num_slots = src.shape[0]
    low, high, slot = np.int64(0), np.int64(0), np.int64(0)
    if window < num_windows:
        if lane == 0:
            slot = first[window] * 32
            low = np.int64(src[slot - 1]) if slot > 0 else np.int64(-1)
            high = np.int64(src[slot])
        elif lane == 1 and (window + 1 == num_windows or first[window + 1] != end[window]):
            slot = end[window] * 32
            low = np.int64(src[slot - 1])
            high = np.int64(src[slot]) if slot < num_slots else np.int64(offsets.shape[0] - 1)
    if low < high:
        d_write_rows(offsets, low, high, slot)
