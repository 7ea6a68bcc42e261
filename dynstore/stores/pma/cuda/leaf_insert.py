"""Inserting keys into single leaves on CUDA, a lane each: nearly all windows of a random batch are single leaves.

A key goes where it belongs, and the elements between there and the nearest gap move by one slot. Few slots are read and
written, however many a leaf has. The lanes of a warp share the moves of all their leaves. Windows of several leaves are
redistributed instead.
"""

from __future__ import annotations

import numpy as np

from dynstore.cuda.compiler import THREADS, WARP, cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_find_owner, d_lane, d_scan_lanes, d_shuffle, d_sync_warp
from dynstore.stores.pma.cuda.records import Edge, NewKeys, Slots
from dynstore.stores.pma.cuda.row_offsets import d_write_rows
from dynstore.stores.pma.cuda.windows import WINDOWS

__all__ = ["d_find_gap", "d_lowest_bit", "d_move_place", "d_shift_keys", "d_write_leaf_rows", "k_shift_leaves"]

# Bits of a leaf's slots: all but the first; the first and the last.
NOT_FIRST, AT_EDGES = np.uint32(0xFFFFFFFE), np.uint32(0x80000001)


@device
def d_lowest_bit(word):
    """Return the number of the lowest bit that is set, 32 if there is none."""
    return np.int32(cuda.clz(np.uint32(cuda.brev(word))))


@device
def d_find_gap(word, place):
    """Return the slot without an element nearest to a place of a leaf, 0 to 32; of two equally near, the one before.

    ``word``: the slots with an element; at least one has none.
    """
    gaps = np.uint64(np.uint32(~word))
    after = d_lowest_bit(np.uint32(gaps >> np.uint64(place)))
    before = np.int32(cuda.clz(np.uint32((gaps << np.uint64(np.int32(32) - place)) & np.uint64(0xFFFFFFFF))))
    return np.int32(place + after) if after < before else np.int32(place - np.int32(1) - before)


@device
def d_move_place(place, filled):
    """Return the place of a key after keys below it have been inserted into its leaf.

    ``filled``: the gaps above such a key, a bit each, that elements have moved up to; later gaps are higher.
    """
    while filled != 0:
        place = np.int32(place + np.int32(place <= d_lowest_bit(filled)))
        filled = np.uint32(filled & (filled - np.uint32(1)))
    return place


@device
def d_move_elements(slots, board, leaf, gap, is_up, left):
    """All lanes share the moves of all lanes: each a run of ``left`` elements, up or down, the first into its gap.

    A leaf with many moves delays no other, and all reads overlap. The bits of slots whose source changes go to the
    lane's word on the ``board``, shared.
    """
    lane, ends = np.int32(d_lane()), np.int32(d_scan_lanes(left))
    total, start = d_shuffle(ends, WARP - 1), np.int32(ends - left)
    first = np.int32(0)
    while first < total:  # the same in all lanes
        item = np.int32(first + lane)
        owner = d_find_owner(ends, item)
        base = np.uint64(d_shuffle(leaf, owner)) << np.uint64(5)
        number, begin = np.int32(item - d_shuffle(start, owner)), d_shuffle(gap, owner)
        step = np.int32(-1) if d_shuffle(np.int32(is_up), owner) != 0 else np.int32(1)
        slot = np.int32(begin + np.int32(step * number)) & np.int32(31)
        at, origin = base + np.uint64(slot), base + np.uint64((slot + step) & np.int32(31))
        before, row, column, weight = slots.src[at], slots.src[origin], slots.dst[origin], 0
        if slots.is_weighted:
            weight = slots.weights[origin]
        d_sync_warp()  # all lanes have read
        if item < total:
            slots.dst[at] = column
            if slots.is_weighted:
                slots.weights[at] = weight
            if row != before:
                slots.src[at] = row
                thread = cuda.threadIdx.x - lane + owner
                cuda.atomic.or_(board, thread, np.uint32(1) << np.uint32(slot))
        first = np.int32(first + np.int32(WARP))
        d_sync_warp()  # all lanes have written


@device
def d_shift_in(slots, board, leaf, word, place, edge, wanted):
    """Each lane, if ``wanted``, inserts an edge before slot ``place`` of its own leaf, which has a gap.

    Keys keep their order, and the first slot of a run stays the first. Returns the gap that is filled. All lanes call.
    """
    gap = d_find_gap(word, place) if wanted else np.int32(0)
    is_up = wanted & (gap >= place)  # elements move up to a gap behind them, else down
    target = place if is_up else np.int32(place - np.int32(1))
    left = np.int32(gap - target if is_up else target - gap) if wanted else np.int32(0)
    at = (np.uint64(leaf) << np.uint64(5)) + np.uint64(target & np.int32(31))
    before = slots.src[at]
    d_move_elements(slots, board, leaf, gap, is_up, left)
    if wanted:
        slots.dst[at] = edge.dst
        if slots.is_weighted:
            slots.weights[at] = edge.weight
        if edge.src != before:
            slots.src[at] = edge.src
            cuda.atomic.or_(board, cuda.threadIdx.x, np.uint32(1) << np.uint32(target))
    d_sync_warp()
    return gap


@device
def d_write_leaf_rows(src, offsets, base, changed, far_rows):
    """Write row offsets at slots of a leaf whose sources have ``changed``, and behind these; not at the leaf's edges.

    Returns whether the leaf's first or last row has changed: then the offsets at its edges are written later.
    """
    starts = np.uint32((changed | changed << np.uint32(1)) & NOT_FIRST)
    while starts != 0:
        at = base + np.uint64(d_lowest_bit(starts))
        before, row = src[at - np.uint64(1)], src[at]
        if row != before:
            d_write_rows(offsets, before, row, at, far_rows)
        starts = np.uint32(starts & (starts - np.uint32(1)))
    return changed & AT_EDGES != 0


@device
def d_read_key(new, is_weighted, begin, num_keys, number):
    """Return place, source, destination and weight of a leaf's key; behind the last, of that; for no keys, of any."""
    at = np.uint64(begin + min(number, max(num_keys - np.int32(1), np.int32(0))))
    key, weight = np.uint64(new.numbers[at]) if new.by_number else at, 0
    if is_weighted:
        weight = new.weights[key]
    return new.places[at], new.src[key], new.dst[key], weight


@device
def d_shift_keys(slots, new, board, leaf, word, begin, num_keys):
    """Each lane inserts its keys, ascending, into a leaf of its own, leaf 0 for none; all lanes of the warp call.

    Parameters
    ----------
    slots : Slots
    new : NewKeys
        The lane's are ``num_keys`` from ``begin`` on.
    board : shared uint32 array with an entry a thread of the block
    word : uint32
        The slots of the leaf that have an element.

    Returns
    -------
    has_moved : bool
        Whether the leaf's first or last row has changed: then the row offsets at its edges are written later.
    """
    filled, number = np.uint32(0), np.int32(0)
    board[cuda.threadIdx.x] = 0
    place, row, column, weight = d_read_key(new, slots.is_weighted, begin, num_keys, number)
    while d_ballot(number < num_keys) != 0:
        wanted, this_key = number < num_keys, Edge(row, column, weight)
        this_place = d_move_place(np.int32(np.int64(place) - (np.int64(leaf) << 5)), filled)
        number = np.int32(number + np.int32(1))
        place, row, column, weight = d_read_key(new, slots.is_weighted, begin, num_keys, number)
        gap = d_shift_in(slots, board, leaf, word, this_place, this_key, wanted)
        if wanted:
            word = np.uint32(word | np.uint32(1) << np.uint32(gap))
            if gap >= this_place:
                filled = np.uint32(filled | np.uint32(1) << np.uint32(gap))
    changed = board[cuda.threadIdx.x]
    if num_keys > 0:
        slots.valid[leaf] = word
    return d_write_leaf_rows(slots.src, slots.offsets, np.uint64(leaf) << np.uint64(5), changed, slots.far_rows)


@kernel
def k_shift_leaves(
    src, dst, weights, valid, offsets, new_src, new_dst, new_weights, first, end, low, high, places, keys, granted,
    far_rows,
):  # fmt: skip
    """Lanes stride over windows: a window of a single leaf gets its keys by ``d_shift_keys``.

    Row offsets at its edges are left to ``k_write_edge_rows``. If they have not changed, the window becomes one without
    a leaf, which that kernel skips. Precondition: there is a key.
    """
    board = cuda.shared.array(THREADS, np.uint32)
    slots = Slots(src, dst, weights, weights.shape[0] > 0, valid, offsets, far_rows)
    new, lane = NewKeys(places, keys, True, new_src, new_dst, new_weights), d_lane()
    for base in range(cuda.grid(1) - lane, granted[WINDOWS], cuda.gridsize(1)):
        window = min(base + lane, granted[WINDOWS] - 1)
        is_leaf = (base + lane == window) & (end[window] - first[window] == 1)
        leaf = np.int64(first[window]) if is_leaf else np.int64(0)
        num_keys = np.int32(high[window] - low[window]) if is_leaf else np.int32(0)
        begin = np.int64(low[window]) if is_leaf else np.int64(0)
        has_moved = d_shift_keys(slots, new, board, leaf, np.uint32(valid[leaf]), begin, num_keys)
        if is_leaf and not has_moved:
            end[window] = leaf
