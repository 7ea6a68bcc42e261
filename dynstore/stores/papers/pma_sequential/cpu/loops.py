"""One key at a time in a packed memory array on the host: find its place, climb, spread a window in place."""

from __future__ import annotations

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.pma.cpu.redistribute import count_bits, shift_in
from dynstore.stores.pma.cpu.single_key import find_place, respread
from dynstore.stores.table.slots import ABSENT, PRESENT

__all__ = ["delete_keys", "insert_keys"]


@njit(cache=True, borrows=True)
def _widen(valid, num_leaves, leaf, height, first, end, count):
    """Return the bounds of a leaf's ancestor, and its number of edges, from those of the child."""
    wider_first = (leaf >> height) << height
    wider_end = min(wider_first + (1 << height), num_leaves)
    for other in range(wider_first, first):
        count += count_bits(valid[other])
    for other in range(end, wider_end):
        count += count_bits(valid[other])
    return wider_first, wider_end, count


@njit(cache=True)
def insert_keys(src, dst, weights, valid, offsets, limits, states, new_src, new_dst, new_weights):
    """Insert the absent keys one by one; the root has room for all, so every climb ends."""
    num_leaves, zero = src.shape[0] >> 5, weights.dtype.type(0)
    for i in range(states.shape[0]):
        if states[i] != ABSENT:
            continue
        row, key = np.int64(new_src[i]), new_dst[i]
        weight = new_weights[i] if weights.shape[0] > 0 else zero
        place = find_place(offsets, dst, row, key)
        leaf, height = max(place - 1, 0) >> 5, 0
        first, end, count = leaf, leaf + 1, count_bits(valid[leaf])
        while count + 1 > limits[height] * ((end - first) * 32):
            height += 1
            first, end, count = _widen(valid, num_leaves, leaf, height, first, end, count)
        if height == 0:
            shift_in(src, dst, weights, valid, offsets, leaf, place, row, key, weight)
        else:
            respread(src, dst, weights, valid, offsets, first * 32, end * 32, True, row, key, weight)


@njit(cache=True)
def delete_keys(src, dst, weights, valid, offsets, limits, states, old_src, old_dst):
    """Delete the present keys one by one; the root stays dense enough, so every climb ends."""
    num_leaves, zero = src.shape[0] >> 5, weights.dtype.type(0)
    for i in range(states.shape[0]):
        if states[i] != PRESENT:
            continue
        place = find_place(offsets, dst, np.int64(old_src[i]), old_dst[i])
        leaf, height = place >> 5, 0
        valid[leaf] &= ~(np.uint32(1) << np.uint32(place & 31))
        first, end, count = leaf, leaf + 1, count_bits(valid[leaf])
        while count < limits[height] * ((end - first) * 32):
            height += 1
            first, end, count = _widen(valid, num_leaves, leaf, height, first, end, count)
        if height > 0:
            respread(src, dst, weights, valid, offsets, first * 32, end * 32, False, 0, dst[0], zero)
