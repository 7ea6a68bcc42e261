"""One key at a time in a packed memory array on the host: find its place, climb, spread a window where it lies."""

from __future__ import annotations

import numpy as np
from numba import njit

from dynstore._cpu.leaf_loops import shift_in, write_rows
from dynstore._cpu.window_loops import count_bits
from dynstore.slots import ABSENT, PRESENT

__all__ = ["delete_keys", "find_place", "insert_keys", "respread"]


@njit(cache=True)
def find_place(offsets, dst, row, key):
    """Return the first slot of a row whose key is not below ``key``, else where the next row starts."""
    low, high = np.int64(offsets[row]), np.int64(offsets[row + 1])
    while low < high:
        middle = (low + high) >> 1
        if dst[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _widen(valid, num_leaves, leaf, height, first, end, count):
    """Return the bounds of a leaf's ancestor, and how many edges it holds; those of the child are known."""
    wider_first = (leaf >> height) << height
    wider_end = min(wider_first + (1 << height), num_leaves)
    for other in range(wider_first, first):
        count += count_bits(valid[other])
    for other in range(end, wider_end):
        count += count_bits(valid[other])
    return wider_first, wider_end, count


@njit(cache=True)
def respread(src, dst, weights, valid, offsets, first, end, inserting, row, key, weight):
    """Spread the edges in the slots [first, end) evenly, with a new one if ``inserting``; needs no other memory.

    They are packed to the left, then each slot, from the right, takes the element that it is to show, which never
    lies to the right of it: slot s shows element floor(((s + 1) count - 1) / size), valid in the first that does.
    """
    weighted, size = weights.shape[0] > 0, end - first
    before = np.int64(src[first - 1]) if first > 0 else np.int64(-1)
    last_row, behind = np.int64(src[end - 1]), first
    for slot in range(first, end):
        if (valid[slot >> 5] >> np.uint32(slot & 31)) & np.uint32(1):
            src[behind], dst[behind] = src[slot], dst[slot]
            if weighted:
                weights[behind] = weights[slot]
            behind += 1
    count, rank = behind - first, behind - first
    if inserting:
        while rank > 0 and (
            src[first + rank - 1] > row or (src[first + rank - 1] == row and dst[first + rank - 1] > key)
        ):
            rank -= 1
        count += 1
    word = np.uint32(0)
    for place in range(size - 1, -1, -1):
        element, slot = ((place + 1) * count - 1) // size, first + place
        if inserting and element == rank:
            src[slot], dst[slot] = row, key
            if weighted:
                weights[slot] = weight
        else:
            origin = first + element - (1 if inserting and element > rank else 0)
            src[slot], dst[slot] = src[origin], dst[origin]
            if weighted:
                weights[slot] = weights[origin]
        if place == 0 or (place * count - 1) // size != element:
            word |= np.uint32(1) << np.uint32(slot & 31)
        if slot & 31 == 0:
            valid[slot >> 5] = word
            word = np.uint32(0)
    for slot in range(first, end):
        here = np.int64(src[slot])
        if here != before:
            write_rows(offsets, before, here, slot)
            before = here
    write_rows(offsets, before, last_row, end)


@njit(cache=True)
def insert_keys(src, dst, weights, valid, offsets, limits, states, new_src, new_dst, new_weights):
    """Insert the absent keys one by one; the root has room for all of them, so every climb ends."""
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
