"""Inserting keys into single leaves on CUDA, each by a thread: what nearly all windows of a random batch are.

A key goes where it belongs, and what is between there and the nearest gap moves by one slot; all else stays as it is.
So few slots are read and written, however many a leaf has. A window of several leaves is spread evenly.
"""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import cuda, device, kernel
from dynstore._cuda.leaves import d_write_rows
from dynstore._cuda.windows import WINDOWS

__all__ = ["d_move_place", "d_shift_in", "d_write_leaf_rows", "k_shift_leaves"]

# Bits of a leaf's slots: of all but the first; of the first and the last.
NOT_FIRST, AT_EDGES = np.uint32(0xFFFFFFFE), np.uint32(0x80000001)


@device
def d_lowest_bit(word):
    """Return the number of the lowest bit that is set, 32 where none is."""
    return np.int32(cuda.clz(np.uint32(cuda.brev(word))))


@device
def d_find_gap(word, place):
    """Return the slot of a leaf, without an element, nearest to a place, 0 to 32; of two the one before it.

    ``word``: which slots have one; not all.
    """
    gaps = np.uint64(np.uint32(~word))
    after = d_lowest_bit(np.uint32(gaps >> np.uint64(place)))
    before = np.int32(cuda.clz(np.uint32((gaps << np.uint64(np.int32(32) - place)) & np.uint64(0xFFFFFFFF))))
    return np.int32(place + after) if after < before else np.int32(place - np.int32(1) - before)


@device
def d_move_place(place, filled):
    """Return the place of a key after keys below it have been put into its leaf.

    ``filled``: the gaps, one bit each, up to which elements moved behind such a key; later ones are higher.
    """
    while filled != 0:
        place = np.int32(place + np.int32(place <= d_lowest_bit(filled)))
        filled = np.uint32(filled & (filled - np.uint32(1)))
    return place


@device
def d_write_slot(src, dst, weights, is_weighted, at, row, column, weight, before, wanted):
    """Let a slot show an edge if that is ``wanted``. Returns 1 if its source, ``before`` so far, changes, else 0."""
    changes = wanted & (row != before)
    if wanted:
        dst[at] = column
        if is_weighted:
            weights[at] = weight
    if changes:
        src[at] = row
    return np.uint32(changes)


@device
def d_shift_in(src, dst, weights, is_weighted, base, word, place, row, column, weight, changed):
    """Put an edge before slot ``place`` of the leaf whose first slot is ``base``, uint64, which has a gap.

    Keys keep their order, and what is first in its run stays so. Elements move two at a time, so that their reads wait
    together. Returns the gap that is filled, and ``changed`` with the bits of slots that have another source now.
    """
    gap = d_find_gap(word, place)
    is_up = gap >= place  # the way that elements move: up to a gap behind them, else down
    left = np.int32(gap - place if is_up else place - np.int32(1) - gap)
    slot, step = gap, np.int32(-1 if is_up else 1)
    at = base + np.uint64(slot)
    before = src[at]
    while left > 0:
        middle = np.int32(slot + step)
        end = np.int32(middle + step) if left > 1 else middle
        middle_at, end_at = base + np.uint64(middle), base + np.uint64(end)
        middle_row, middle_column, end_row, end_column = src[middle_at], dst[middle_at], src[end_at], dst[end_at]
        middle_weight, end_weight = weight, weight
        if is_weighted:
            middle_weight, end_weight = weights[middle_at], weights[end_at]
        changes = d_write_slot(
            src, dst, weights, is_weighted, at, middle_row, middle_column, middle_weight, before, True
        )
        changed = np.uint32(changed | changes << np.uint32(slot))
        changes = d_write_slot(
            src, dst, weights, is_weighted, middle_at, end_row, end_column, end_weight, middle_row, left > 1
        )
        changed = np.uint32(changed | changes << np.uint32(middle))
        before, slot, at, left = end_row, end, end_at, np.int32(left - np.int32(2))
    changes = d_write_slot(src, dst, weights, is_weighted, at, row, column, weight, before, True)
    return gap, np.uint32(changed | changes << np.uint32(slot))


@device
def d_write_leaf_rows(src, offsets, base, changed, far_rows):
    """Let rows start where sources have ``changed``, slots of a leaf, or behind these; not at the leaf's edges.

    Returns whether the leaf's first or last row has changed: then those at its edges are still to be written.
    """
    starts = np.uint32((changed | changed << np.uint32(1)) & NOT_FIRST)
    while starts != 0:
        at = base + np.uint64(d_lowest_bit(starts))
        before, row = src[at - np.uint64(1)], src[at]
        if row != before:
            d_write_rows(offsets, before, row, at, far_rows)
        starts = np.uint32(starts & (starts - np.uint32(1)))
    return changed & AT_EDGES != 0


@kernel
def k_shift_leaves(
    src, dst, weights, valid, offsets, new_src, new_dst, new_weights, first, end, low, high, places, keys, granted,
    far_rows,
):  # fmt: skip
    """Threads stride over windows: one of a single leaf takes its keys, ascending, in turn. Rows at edges are left."""
    is_weighted = weights.shape[0] > 0
    for window in range(cuda.grid(1), granted[WINDOWS], cuda.gridsize(1)):
        leaf = first[window]
        if end[window] - leaf == 1:
            base, word = np.uint64(leaf) << np.uint64(5), np.uint32(valid[leaf])
            filled, changed = np.uint32(0), np.uint32(0)
            for i in range(low[window], high[window]):
                key, place = keys[i], d_move_place(np.int32(places[i] - leaf * 32), filled)
                weight = new_weights[key] if is_weighted else 0
                gap, changed = d_shift_in(
                    src, dst, weights, is_weighted, base, word, place, new_src[key], new_dst[key], weight, changed
                )
                word = np.uint32(word | np.uint32(1) << np.uint32(gap))
                if gap >= place:
                    filled = np.uint32(filled | np.uint32(1) << np.uint32(gap))
            valid[leaf] = word
            d_write_leaf_rows(src, offsets, base, changed, far_rows)
