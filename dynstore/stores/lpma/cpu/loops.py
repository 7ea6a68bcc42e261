"""Reading and writing the segments of a leveled packed memory array on the host."""

from __future__ import annotations

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.lpma.cpu.mapping import (
    base_of,
    first_source_of,
    in_order_slot,
    last_source_of,
    physical_of,
    word_of,
)
from dynstore.stores.lpma.levels import DST, END, FIRST_DST, FIRST_SRC, SRC, STAMP, VALID, WEIGHT
from dynstore.stores.pma.cpu.redistribute import count_bits
from dynstore.stores.table.slots import ABSENT, PRESENT

__all__ = [
    "append_first_keys",
    "clear_keys",
    "clear_located_keys",
    "copy_changed",
    "gather_all",
    "locate",
    "read_row",
    "read_weights",
    "renumber",
    "set_weights",
    "spread",
    "write_windows",
]


TOUCH_AHEAD = 16


@njit(cache=True, borrows=True)
def _locate_one(ids, words, table, depth, starts, row, key):
    """Return the first slot in order of a row whose destination is not below ``key``, and its state."""
    if row >= starts.shape[0] - 1:
        return np.int64(32) << depth, ABSENT
    begin, end = in_order_slot(starts[row], depth), in_order_slot(starts[row + 1], depth)
    if begin == end:
        return begin, ABSENT
    low, high = begin >> 5, (end - 1) >> 5  # find the last segment whose first destination is below the key, else `low`
    while low < high:
        middle = (low + high + 1) >> 1
        p = physical_of(middle, depth)
        if ids[base_of(table, FIRST_DST, p) + p] < key:
            low = middle
        else:
            high = middle - 1
    p = physical_of(low, depth)
    place, last = max(begin, low << 5), min(end, (low + 1) << 5)
    if ids[base_of(table, FIRST_SRC, p) + p] < 0:  # never written: all slots show its first key
        place = last if ids[base_of(table, FIRST_DST, p) + p] < key else place
    else:
        column = base_of(table, DST, p) + p * 32
        while place < last:
            middle = (place + last) >> 1
            if ids[column + (middle & 31)] < key:
                place = middle + 1
            else:
                last = middle
    if place == end:
        return place, ABSENT
    p = physical_of(place >> 5, depth)
    bit = (word_of(words, table, p) >> np.uint32(place & 31)) & np.uint32(1)
    if bit and ids[base_of(table, DST, p) + p * 32 + (place & 31)] == key:
        return place, PRESENT
    return place, ABSENT


@njit(cache=True)
def locate(ids, words, table, depth, starts, edge_src, edge_dst, positions, states):
    """Find each edge's lower bound in its row, a slot in order, and its state: PRESENT or ABSENT."""
    for i in range(edge_src.shape[0]):
        positions[i], states[i] = _locate_one(
            ids, words, table, depth, starts, np.int64(edge_src[i]), np.int64(edge_dst[i])
        )


@njit(cache=True)
def renumber(positions, growth):
    """Renumber slots in order for ``growth`` new levels.

    A place behind all slots of a segment becomes one behind the new segments that follow: these repeat its last key.
    """
    for i in range(positions.shape[0]):
        positions[i] = (positions[i] >> 5 << growth << 5) + (positions[i] & 31)


@njit(cache=True)
def set_weights(words, weights, table, depth, positions, states, new_weights, add, stamp):
    """Write the new weights of present edges."""
    for i in range(positions.shape[0]):
        if states[i] == PRESENT:
            p = physical_of(positions[i] >> 5, depth)
            item = base_of(table, WEIGHT, p) + p * 32 + (positions[i] & 31)
            weights[item] = new_weights[i] + (weights[item] if add else 0)
            words[base_of(table, STAMP, p) + p] = stamp


@njit(cache=True)
def read_weights(weights, table, depth, positions, states, out):
    """Read the weights of present edges; 0 for absent ones."""
    for i in range(positions.shape[0]):
        out[i] = 0
        if states[i] == PRESENT:
            p = physical_of(positions[i] >> 5, depth)
            out[i] = weights[base_of(table, WEIGHT, p) + p * 32 + (positions[i] & 31)]


@njit(cache=True)
def clear_keys(ids, words, table, depth, starts, edge_src, edge_dst, stamp):
    """Delete edges; absent ones are skipped. Return the number deleted."""
    found = 0
    for i in range(edge_src.shape[0]):
        slot, state = _locate_one(ids, words, table, depth, starts, np.int64(edge_src[i]), np.int64(edge_dst[i]))
        if state == PRESENT:
            p = physical_of(slot >> 5, depth)
            words[base_of(table, VALID, p) + p] &= ~(np.uint32(1) << np.uint32(slot & 31))
            words[base_of(table, STAMP, p) + p] = stamp
            found += 1
    return found


@njit(cache=True)
def clear_located_keys(words, table, depth, positions, states, stamp):
    """Delete the edges that were located."""
    for i in range(positions.shape[0]):
        if states[i] == PRESENT:
            p = physical_of(positions[i] >> 5, depth)
            words[base_of(table, VALID, p) + p] &= ~(np.uint32(1) << np.uint32(positions[i] & 31))
            words[base_of(table, STAMP, p) + p] = stamp


@njit(cache=True)
def append_first_keys(ids, table, depth, old_depth):
    """Set the first key of new levels' segments to the last key before each; they count as never written."""
    if old_depth < 0:
        ids[base_of(table, FIRST_SRC, 0)], ids[base_of(table, FIRST_DST, 0)], old_depth = -1, 0, 0
    growth = depth - old_depth
    for old in range(np.int64(1) << old_depth):
        p = physical_of(old << growth, depth)
        written = ids[base_of(table, FIRST_SRC, p) + p] >= 0
        source = last_source_of(ids, table, p)
        last, first = base_of(table, DST, p) + p * 32 + 31, base_of(table, FIRST_DST, p) + p
        key = ids[last] if written else ids[first]
        for i in range((old << growth) + 1, (old + 1) << growth):
            p = physical_of(i, depth)
            ids[base_of(table, FIRST_SRC, p) + p] = -1 - source
            ids[base_of(table, FIRST_DST, p) + p] = key


@njit(cache=True, borrows=True)
def _write_rows(starts, low, high, slot):
    """Set the start of the rows in (low, high] to a physical slot; if the first and last are right, all are."""
    if low < high and (starts[low + 1] != slot or starts[high] != slot):
        for row in range(low + 1, high + 1):
            starts[row] = slot


@njit(cache=True, borrows=True)
def spread(ids, words, weights, table, depth, starts, weighted, first, end, count, e_src, e_dst, e_weights, stamp):
    """Write ``count`` edges evenly over the segments [first, end) in order; gaps repeat the key before them.

    Slot s of c shows edge floor(((s + 1) count - 1) / c), valid in the first slot that shows it. The starts of rows
    that begin in the window, or right behind it, are written.
    """
    size = (end - first) * 32
    row = np.int64(-1)
    if first > 0:
        row = last_source_of(ids, table, physical_of(first - 1, depth))
    edge, share, fresh = 0, count - 1, True
    for i in range(first, end):
        p = physical_of(i, depth)
        src, dst = base_of(table, SRC, p) + p * 32, base_of(table, DST, p) + p * 32
        weight = base_of(table, WEIGHT, p) + p * 32
        ids[base_of(table, FIRST_SRC, p) + p] = e_src[edge]
        ids[base_of(table, FIRST_DST, p) + p] = e_dst[edge]
        word = np.uint32(0)
        for place in range(32):
            word |= np.uint32(fresh) << np.uint32(place)
            source = np.int64(e_src[edge])
            if source != row:
                _write_rows(starts, row, source, p * 32 + place)
                row = source
            ids[src + place], ids[dst + place] = source, e_dst[edge]
            if weighted:
                weights[weight + place] = e_weights[edge]
            share += count
            fresh = share >= size
            if fresh:
                share -= size
                edge += 1
        words[base_of(table, VALID, p) + p] = word
        words[base_of(table, STAMP, p) + p] = stamp
    if end == np.int64(1) << depth:
        _write_rows(starts, row, np.int64(starts.shape[0] - 1), END)
    else:
        p = physical_of(end, depth)
        _write_rows(starts, row, first_source_of(ids, table, p), p * 32)


@njit(cache=True, borrows=True)
def _gather(ids, words, weights, table, depth, weighted, first, end, low, high, pending, places, new, scratch):
    """Merge the edges of segments [first, end) with pending keys; a key goes before slot ``places[key]``."""
    new_src, new_dst, new_weights = new
    t_src, t_dst, t_weights = scratch
    count, key = 0, low
    for i in range(first, end):
        p = physical_of(i, depth)
        word = word_of(words, table, p)
        if word == 0:
            continue
        src, dst, weight = (
            base_of(table, SRC, p) + p * 32,
            base_of(table, DST, p) + p * 32,
            base_of(table, WEIGHT, p) + p * 32,
        )
        for place in range(32):
            if not (word >> np.uint32(place)) & np.uint32(1):
                continue
            while key < high and places[pending[key]] <= i * 32 + place:
                t_src[count], t_dst[count] = new_src[pending[key]], new_dst[pending[key]]
                if weighted:
                    t_weights[count] = new_weights[pending[key]]
                key, count = key + 1, count + 1
            t_src[count], t_dst[count] = ids[src + place], ids[dst + place]
            if weighted:
                t_weights[count] = weights[weight + place]
            count += 1
    while key < high:
        t_src[count], t_dst[count] = new_src[pending[key]], new_dst[pending[key]]
        if weighted:
            t_weights[count] = new_weights[pending[key]]
        key, count = key + 1, count + 1
    return count


@njit(cache=True, borrows=True)
def _touch(ids, words, table, depth, starts, bounds, pending, new_src, first, end):
    """Read the data of each window's first segment, so that the cache misses of several windows overlap."""
    seen = np.int64(0)
    for window in range(first, end):
        p = physical_of(bounds[window, 0], depth)
        src, dst = base_of(table, SRC, p) + p * 32, base_of(table, DST, p) + p * 32
        seen += ids[src] + ids[src + 31] + ids[dst] + ids[dst + 31] + ids[base_of(table, FIRST_SRC, p) + p]
        seen += np.int64(word_of(words, table, p)) + words[base_of(table, STAMP, p) + p]
        if bounds[window, 2] < bounds[window, 3]:
            seen += starts[new_src[pending[bounds[window, 2]]]]
    return seen


@njit(cache=True)
def write_windows(ids, words, weights, table, depth, starts, weighted, bounds, pending, places, new, scratch, stamp):
    """Merge each window's edges with its pending keys in scratch, then spread them over the window."""
    seen = np.int64(0)
    for window in range(bounds.shape[0]):
        if window % TOUCH_AHEAD == 0:
            ahead = min(window + TOUCH_AHEAD, bounds.shape[0])
            seen += _touch(ids, words, table, depth, starts, bounds, pending, new[0], window, ahead)
        first, end, low, high = bounds[window, 0], bounds[window, 1], bounds[window, 2], bounds[window, 3]
        count = _gather(
            ids, words, weights, table, depth, weighted, first, end, low, high, pending, places, new, scratch
        )
        spread(ids, words, weights, table, depth, starts, weighted, first, end, count, *scratch, stamp)
    return seen


@njit(cache=True)
def gather_all(ids, words, weights, table, depth, weighted, none, scratch):
    """Copy all edges to scratch, in order; ``none``: an empty int64 array."""
    end = np.int64(1) << depth
    _gather(ids, words, weights, table, depth, weighted, 0, end, 0, 0, none, none, scratch, scratch)


@njit(cache=True)
def copy_changed(ids, words, weights, table, depth, starts, weighted, since, src, dst, out_weights, valid, offsets):
    """Update a table of all slots in order: the segments changed after ``since`` (-1: all), and the offsets."""
    for i in range(np.int64(1) << depth):
        p = physical_of(i, depth)
        if since >= 0 and np.int64(words[base_of(table, STAMP, p) + p]) <= since:
            continue
        valid[i] = word_of(words, table, p)
        source = np.int64(ids[base_of(table, FIRST_SRC, p) + p])
        from_src, from_dst = base_of(table, SRC, p) + p * 32, base_of(table, DST, p) + p * 32
        from_weight, first_dst = base_of(table, WEIGHT, p) + p * 32, base_of(table, FIRST_DST, p) + p
        for place in range(32):
            slot = i * 32 + place
            src[slot] = ids[from_src + place] if source >= 0 else -1 - source
            dst[slot] = ids[from_dst + place] if source >= 0 else ids[first_dst]
            if weighted:
                out_weights[slot] = weights[from_weight + place] if source >= 0 else 0
    for row in range(offsets.shape[0]):
        offsets[row] = in_order_slot(starts[row], depth)


@njit(cache=True)
def read_row(ids, words, table, depth, begin, end, out):
    """Write the destinations of a row's edges to ``out``, as far as it has room; return their number."""
    first, last = in_order_slot(begin, depth), in_order_slot(end, depth)
    count = 0
    for i in range(first >> 5, (last + 31) >> 5):
        p = physical_of(i, depth)
        word = word_of(words, table, p)
        if first > i * 32:
            word &= np.uint32(0xFFFFFFFF) << np.uint32(first & 31)
        if last < (i + 1) * 32:
            word &= (np.uint32(1) << np.uint32(last & 31)) - np.uint32(1)
        if out.shape[0] == 0:
            count += count_bits(word)
            continue
        column = base_of(table, DST, p) + p * 32
        for place in range(32):
            if (word >> np.uint32(place)) & np.uint32(1):
                out[count] = ids[column + place]
                count += 1
    return count
