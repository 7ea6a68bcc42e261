"""Inserting keys into single leaves on CUDA, each by a thread: what nearly all windows of a random batch are.

A key goes where it belongs, and what is between there and the nearest gap moves by one slot; all else stays as it is.
So few slots are read and written, however many a leaf has. A window of several leaves is spread evenly.
"""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import WARP, cuda, device, kernel
from dynstore._cuda.leaves import d_write_rows
from dynstore._cuda.windows import WINDOWS

__all__ = ["FIRST_OF_NONE", "LAST_OF_NONE", "d_end_leaf", "d_move_place", "d_shift_in", "k_shift_leaves"]

# The first and the last of no slots.
FIRST_OF_NONE, LAST_OF_NONE = np.int32(WARP), np.int32(-1)


@device
def d_find_gap(word, place):
    """Return the slot of a leaf, without an element, nearest to a place, 0 to 32; of two the one before it.

    ``word``: which slots have one; not all.
    """
    gaps = np.uint64(np.uint32(~word))
    after = np.int32(cuda.clz(np.uint32(cuda.brev(np.uint32(gaps >> np.uint64(place))))))
    before = np.int32(cuda.clz(np.uint32((gaps << np.uint64(np.int32(32) - place)) & np.uint64(0xFFFFFFFF))))
    return np.int32(place + after) if after < before else np.int32(place - np.int32(1) - before)


@device
def d_move_place(place, filled):
    """Return the place of a key after keys below it have been put into its leaf.

    ``filled``: the gaps, one bit each, up to which elements moved behind such a key; later ones are higher.
    """
    while filled != 0:
        gap = np.int32(cuda.clz(np.uint32(cuda.brev(filled))))
        place = np.int32(place + np.int32(place <= gap))
        filled = np.uint32(filled & (filled - np.uint32(1)))
    return place


@device
def d_shift_in(src, dst, weights, is_weighted, base, word, place, row, column, weight, first, last):
    """Put an edge before slot ``place`` of the leaf whose first slot is ``base``, uint64, which has a gap.

    Keys keep their order, and what is first in its run stays so. ``first``, ``last``: of the slots whose source has
    changed so far. Returns the gap that is filled, and these two.
    """
    gap = d_find_gap(word, place)
    step, target = (np.int32(-1), place) if gap >= place else (np.int32(1), np.int32(place - np.int32(1)))
    slot, at = gap, base + np.uint64(gap)
    before = src[at]
    while slot != target:
        following = np.int32(slot + step)
        origin = base + np.uint64(following)
        moved = src[origin]
        dst[at] = dst[origin]
        if is_weighted:
            weights[at] = weights[origin]
        if moved != before:
            src[at] = moved
            first, last = min(first, slot), max(last, slot)
        before, slot, at = moved, following, origin
    dst[at] = column
    if is_weighted:
        weights[at] = weight
    if row != before:
        src[at] = row
        first, last = min(first, slot), max(last, slot)
    return gap, first, last


@device
def d_end_leaf(src, offsets, base, first, last, far_rows):
    """Let rows start where sources have changed, slots ``first`` to ``last`` of a leaf, or behind, not at its edges.

    Returns whether the leaf's first or last row has changed: then those at its edges are still to be written.
    """
    slot, end = np.int32(max(first, np.int32(1))), np.int32(min(last + np.int32(1), np.int32(WARP - 1)))
    if slot <= end:
        before = src[base + np.uint64(slot - np.int32(1))]
        while slot <= end:
            row = src[base + np.uint64(slot)]
            if row != before:
                d_write_rows(offsets, before, row, base + np.uint64(slot), far_rows)
            before, slot = row, np.int32(slot + np.int32(1))
    return first == 0 or last == WARP - 1


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
            base, word, filled = np.uint64(leaf) << np.uint64(5), np.uint32(valid[leaf]), np.uint32(0)
            first_slot, last_slot = FIRST_OF_NONE, LAST_OF_NONE
            for i in range(low[window], high[window]):
                key, place = keys[i], d_move_place(np.int32(places[i] - leaf * 32), filled)
                weight = new_weights[key] if is_weighted else 0
                gap, first_slot, last_slot = d_shift_in(
                    src, dst, weights, is_weighted, base, word, place, new_src[key], new_dst[key], weight,
                    first_slot, last_slot,
                )  # fmt: skip
                word = np.uint32(word | np.uint32(1) << np.uint32(gap))
                if gap >= place:
                    filled = np.uint32(filled | np.uint32(1) << np.uint32(gap))
            valid[leaf] = word
            d_end_leaf(src, offsets, base, first_slot, last_slot, far_rows)
