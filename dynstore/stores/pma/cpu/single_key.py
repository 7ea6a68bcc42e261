"""One key in a packed memory array on the host: find its place, redistribute a window in place."""

from __future__ import annotations

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.pma.cpu.redistribute import write_rows

__all__ = ["find_place", "respread"]


@njit(cache=True, borrows=True)
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


@njit(cache=True, borrows=True)
def respread(src, dst, weights, valid, offsets, first, end, inserting, row, key, weight):
    """Redistribute the edges in the slots [first, end), with a new one if ``inserting``; needs no other memory.

    First the edges move to the left without gaps. Then each slot, from the right, takes its element, which is never to
    the right of it: slot s shows element floor(((s + 1) count - 1) / size), valid in the first slot that does.
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
    if before < last_row:
        write_rows(offsets, before, last_row, end)
