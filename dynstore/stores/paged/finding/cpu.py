"""Searching pages for the edges of a batch on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.batches.cpu.states import d_find_pair
from dynstore.host_compiler import njit
from dynstore.stores.paged.cpu import d_find_bits, d_find_place, d_has_bit, d_open_leaf
from dynstore.stores.paged.layout import LEAF, LEAF_BITS

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["search_batch"]


@njit(borrows=True)
def d_passes(words, offsets, row, column):
    """Return whether the filter passes an edge."""
    place, bits = d_find_bits(offsets, row, column, words.shape[0])
    return offsets[row] < offsets[row + 1] and (words[place] & bits) == bits


@njit(borrows=True)
def d_search_bases(bases, low, high, destination):
    """Return the last leaf from ``low`` to ``high`` whose base is not above a destination, ``low`` if there is none."""
    while low < high:
        middle = (low + high + 1) >> 1
        if np.int64(bases[middle]) <= destination:
            low = middle
        else:
            high = middle - 1
    return low


@njit(borrows=True)
def d_find_edge(heads, bases, marks, words, places, shift, page_bits, offsets, row, destination, held):
    """Return the slot of an edge, -1 if it is not there.

    The bases of the row's leaves are searched, then one leaf; if that is the one before the last, the last, too.
    """
    begin, end = offsets[row], offsets[row + 1]
    if begin == end:
        return np.int64(-1)
    first, last = begin >> LEAF_BITS, (end - 1) >> LEAF_BITS
    chosen = d_search_bases(bases, first, max(last - 1, first), destination)
    for leaf in (chosen, last):
        start = leaf << LEAF_BITS
        count = min(LEAF, end - start)
        place = d_find_place(places, shift, page_bits, heads[leaf], leaf)
        d_open_leaf(words, place, heads[leaf], bases[leaf], marks[leaf], count, held)
        for slot in range(max(begin - start, 0), count):
            if held[slot] == destination:
                return start + slot
        if chosen != last - 1:
            break
    return np.int64(-1)


@njit(cache=True, nogil=True)
def k_search_batch(
    heads, bases, marks, words, places, shift, page_bits, offsets, valid, passing, src, dst, mirrored, every_slot,
    slots, live, totals,
):  # fmt: skip
    """Write slots and bits of the edges that are in pages, and count them; of (u, v), u <= v, both directions."""
    held, num_vertices = np.empty(LEAF, np.int64), offsets.shape[0] - 1
    for i in range(src.shape[0]):
        row, column = np.int64(src[i]), np.int64(dst[i])
        if not (0 <= row < num_vertices and 0 <= column < num_vertices) or (mirrored and row > column):
            continue
        if not d_passes(passing, offsets, row, column) or (mirrored and not d_passes(passing, offsets, column, row)):
            continue
        totals[3] += 1
        slot = d_find_edge(heads, bases, marks, words, places, shift, page_bits, offsets, row, column, held)
        if slot < 0:
            continue
        alive, twice = d_has_bit(valid[slot >> LEAF_BITS], slot & 31), mirrored and row != column
        slots[i], live[i] = slot, alive
        if twice:
            other = slot
            if every_slot or not alive:
                other = d_find_edge(heads, bases, marks, words, places, shift, page_bits, offsets, column, row, held)
                totals[3] += 1
            twin = d_find_pair(src, dst, column, row)
            slots[twin], live[twin] = other, alive
        totals[0 if alive else 2] += 2 if twice else 1
        totals[1] += alive and row == column


def search_batch(
    backend: Backend,
    pages: tuple[Any, ...],
    edges: tuple[Array, Array],
    how: tuple[bool, bool],
    slots: Array,
    live: Array,
) -> list[int]:
    """Write slots and liveness of the edges that are in pages; all others stay as they are.

    ``pages``: the arrays of leaves, where words lie, offsets, bits, words of the filter. ``edges``: sources and
    destinations. ``how``: whether the batch is mirrored, and whether every slot is wanted.

    Returns
    -------
    list of int
        How many are live, self-loops of these, how many are dead, and searches that read leaves.
    """
    totals = np.zeros(4, np.int64)
    k_search_batch(*pages[:3], *pages[5:], *edges, *how, slots, live, totals)
    return totals.tolist()
