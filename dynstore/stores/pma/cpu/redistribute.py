"""Writing the leaves of a packed memory array on the host."""

from __future__ import annotations

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.table.slots import ABSENT, PRESENT, TOMBSTONE

__all__ = ["clear_located", "gather_all", "set_located", "shift_in", "spread", "write_rows", "write_windows"]

# Up to SHIFT_AT_MOST keys are shifted into a leaf one by one; more of them share one redistribution.
SHIFT_AT_MOST = 4
TOUCH_AHEAD = 16


@njit(cache=True)
def write_rows(offsets, low, high, slot):
    """Let the rows in (low, high] start at ``slot``; rows are written in ascending order.

    Their old starts ascend, so if the outer two are right, all are: a long gap of ids costs nothing.
    """
    if low < high and (offsets[low + 1] != slot or offsets[high] != slot):
        for row in range(low + 1, high + 1):
            offsets[row] = slot


@njit(cache=True)
def spread(src, dst, weights, valid, offsets, first, end, count, last_row, some_src, some_dst, some_weights):
    """Write ``count`` elements evenly over the slots [first, end), gaps repeating the key before them.

    Rows up to ``last_row``, that of the window's last slot before, may have begun in the window; later ones did not.
    """
    size = end - first
    weighted = weights.shape[0] > 0
    row = np.int64(src[first - 1]) if first > 0 else np.int64(-1)
    # Slot s of the window shows element floor(((s + 1) count - 1) / size), valid in the first slot that does.
    element, share, fresh, word = np.uint64(0), count - 1, True, np.uint32(0)
    for slot in range(np.uint64(first), np.uint64(end)):
        word |= np.uint32(fresh) << np.uint32(slot & np.uint64(31))
        new_row = np.int64(some_src[element])
        if new_row != row:
            write_rows(offsets, row, new_row, np.int64(slot))
            row = new_row
        src[slot], dst[slot] = some_src[element], some_dst[element]
        if weighted:
            weights[slot] = some_weights[element]
        if slot & np.uint64(31) == np.uint64(31):
            valid[slot >> np.uint64(5)] = word
            word = np.uint32(0)
        share += count
        fresh = share >= size
        if fresh:
            share -= size
            element += np.uint64(1)
    write_rows(offsets, row, last_row, end)


@njit(cache=True)
def set_located(weights, valid, positions, states, new_weights, add):
    """Give present keys their weight, and restore tombstones; an old weight of a tombstone does not count."""
    weighted = weights.shape[0] > 0
    for i in range(positions.shape[0]):
        if states[i] == ABSENT:
            continue
        slot = positions[i]
        if weighted:
            weights[slot] = new_weights[i] + (weights[slot] if add and states[i] == PRESENT else 0)
        if states[i] == TOMBSTONE:
            valid[slot >> 5] |= np.uint32(1) << np.uint32(slot & 31)


@njit(cache=True)
def clear_located(valid, positions, states):
    for i in range(positions.shape[0]):
        if states[i] == PRESENT:
            valid[positions[i] >> 5] &= ~(np.uint32(1) << np.uint32(positions[i] & 31))


@njit(cache=True)
def _gather(src, dst, weights, valid, first, end, t_src, t_dst, t_weights, count):
    """Append the edges in slots [first, end) to scratch; a gap is overwritten by what comes next."""
    weighted = weights.shape[0] > 0
    place = np.uint64(count)  # unsigned indices need no test for negative ones
    for slot in range(np.uint64(first), np.uint64(end)):
        t_src[place], t_dst[place] = src[slot], dst[slot]
        if weighted:
            t_weights[place] = weights[slot]
        place += np.uint64((valid[slot >> np.uint64(5)] >> np.uint32(slot & np.uint64(31))) & np.uint32(1))
    return np.int64(place)


@njit(cache=True)
def _find_in_leaf(src, dst, leaf, row, key):
    """Return the first slot of a leaf whose key is not below (row, key), else the slot behind the leaf."""
    place, high = leaf * 32, leaf * 32 + 32
    while place < high:
        middle = (place + high) >> 1
        if src[middle] < row or (src[middle] == row and dst[middle] < key):
            place = middle + 1
        else:
            high = middle
    return place


@njit(cache=True)
def shift_in(src, dst, weights, valid, offsets, leaf, place, row, key, weight):
    """Insert an edge before slot ``place`` of a leaf that has a gap; the edges up to the nearest gap move by one slot.

    If two gaps are equally near, the one before the place is taken. Keys keep their order, and the first slot of a run
    stays the first. Only rows that begin at the written slots, or right behind them, get new starts.
    """
    word, begin, end = np.uint32(valid[leaf]), leaf * 32, leaf * 32 + 32
    before, after = place - 1, place
    while before >= begin and (word >> np.uint32(before & 31)) & np.uint32(1):
        before -= 1
    while after < end and (word >> np.uint32(after & 31)) & np.uint32(1):
        after += 1
    if before < begin or (after < end and after - place < place - 1 - before):
        gap, target, step = after, place, -1
    else:
        gap, target, step = before, place - 1, 1
    for slot in range(gap, target, step):
        src[slot], dst[slot] = src[slot + step], dst[slot + step]
        if weights.shape[0] > 0:
            weights[slot] = weights[slot + step]
    src[target], dst[target] = row, key
    if weights.shape[0] > 0:
        weights[target] = weight
    valid[leaf] = word | (np.uint32(1) << np.uint32(gap & 31))
    first, last = min(gap, target), max(gap, target) + 1
    before = np.int64(src[first - 1]) if first > 0 else np.int64(-1)
    for slot in range(first, last + 1):
        here = np.int64(src[slot]) if slot < src.shape[0] else np.int64(offsets.shape[0] - 1)
        if here != before:
            write_rows(offsets, before, here, slot)
            before = here


@njit(cache=True)
def _touch(src, dst, valid, offsets, bounds, pending, places, new_src, first, end):
    """Read where the first key of each window goes, so that the cache misses of several windows overlap."""
    seen = np.int64(0)
    for window in range(first, end):
        if bounds[window, 2] < bounds[window, 3]:
            i = pending[bounds[window, 2]]
            slot = max(places[i] - 1, 0)
            seen += src[slot] + dst[slot] + np.int64(valid[slot >> 5]) + offsets[new_src[i]]
    return seen


@njit(cache=True)
def write_windows(
    src, dst, weights, valid, offsets, bounds, pending, places, new_src, new_dst, new_weights, t_src, t_dst, t_weights
):
    """Merge each window's edges with its pending keys in scratch, then spread them over the window.

    A pending key belongs before slot ``places[key]``, so the merge compares no keys.
    """
    weighted = weights.shape[0] > 0
    zero = weights.dtype.type(0)
    seen = 0
    for window in range(bounds.shape[0]):
        if window % TOUCH_AHEAD == 0:
            ahead = min(window + TOUCH_AHEAD, bounds.shape[0])
            seen += _touch(src, dst, valid, offsets, bounds, pending, places, new_src, window, ahead)
        first, end = bounds[window, 0] * 32, bounds[window, 1] * 32
        slot, count = first, 0
        if end - first == 32 and bounds[window, 3] - bounds[window, 2] <= SHIFT_AT_MOST:
            for key in range(bounds[window, 2], bounds[window, 3]):
                i, leaf = pending[key], first >> 5
                place = places[i]
                if key > bounds[window, 2]:  # the keys before have moved slots
                    place = _find_in_leaf(src, dst, leaf, new_src[i], new_dst[i])
                weight = new_weights[i] if weighted else zero
                shift_in(src, dst, weights, valid, offsets, leaf, place, new_src[i], new_dst[i], weight)
            continue
        for key in range(bounds[window, 2], bounds[window, 3]):
            i = pending[key]
            count = _gather(src, dst, weights, valid, slot, places[i], t_src, t_dst, t_weights, count)
            slot = max(slot, places[i])
            t_src[count], t_dst[count] = new_src[i], new_dst[i]
            if weighted:
                t_weights[count] = new_weights[i]
            count += 1
        count = _gather(src, dst, weights, valid, slot, end, t_src, t_dst, t_weights, count)
        last_row = np.int64(src[end - 1])
        spread(src, dst, weights, valid, offsets, first, end, count, last_row, t_src, t_dst, t_weights)
    return seen


@njit(cache=True)
def gather_all(
    src, dst, weights, valid, positions, states, new_src, new_dst, new_weights, add, t_src, t_dst, t_weights
):
    """Merge all edges with a batch in scratch; present keys give their edge a new weight. Returns their number."""
    weighted = weights.shape[0] > 0
    slot, count = 0, 0
    for i in range(positions.shape[0]):
        if slot < positions[i]:
            count = _gather(src, dst, weights, valid, slot, positions[i], t_src, t_dst, t_weights, count)
            slot = positions[i]
        t_src[count], t_dst[count] = new_src[i], new_dst[i]
        if weighted:
            t_weights[count] = new_weights[i]
        if states[i] == PRESENT:
            if weighted and add:
                t_weights[count] += weights[slot]
            slot += 1
        count += 1
    return _gather(src, dst, weights, valid, slot, src.shape[0], t_src, t_dst, t_weights, count)
