"""Writing row offsets on CUDA: ranges of neighbouring rows that start at the same slot."""

from __future__ import annotations

import numpy as np

from dynstore.cuda.block import d_claim
from dynstore.cuda.compiler import SIMULATED, WARP, cuda, device
from dynstore.cuda.grid import SUMS, d_sync_grid
from dynstore.cuda.warp import d_ballot, d_find_owner, d_lane, d_scan_lanes, d_shuffle
from dynstore.stores.table.cuda.arguments import with_room

__all__ = [
    "FAR_START",
    "d_list_ranges",
    "d_write_far_rows",
    "d_write_rows",
    "d_write_rows_by_warp",
    "far_rows_size",
]

# A range of up to FEW_ROWS rows is written by its lane, up to WARP by the lane or its warp, below FAR_ROWS by a warp,
# and a longer one by all blocks together. ``far_rows`` lists the last two kinds: the number of ranges for all blocks,
# and for warps; the counters of grid waits; then (low, high, slot) of ranges for all blocks; those for warps are at the
# end of the array, the first of them last.
FEW_ROWS, FAR_ROWS = 4, 96 if SIMULATED else 8192
FAR_RANGES, LONG_RANGES = range(2)
FAR_START = SUMS


def far_rows_size(num_vertices: int, num_again: int = 0) -> int:
    """Return how many int64 entries the lists of ranges need for ``num_vertices`` rows, or some more.

    Up to ``num_again`` ranges are listed three times. The first ``FAR_START`` entries have to be zeros.
    """
    num_ranges = num_vertices // (WARP + 1) + 1
    return FAR_START + 3 * with_room(num_ranges + 2 * min(num_ranges, num_again))


@device
def d_list_ranges(far_rows, low, high, slot):
    """List the lanes' ranges of more than WARP rows, which are left to ``d_write_far_rows``.

    One atomic add a warp, and one for each range that is too long for a warp.
    """
    length = high - low
    if d_ballot(length > WARP) == 0:
        return
    place = np.uint32(far_rows.shape[0] - 3 - 3 * d_claim(far_rows, LONG_RANGES, WARP < length < FAR_ROWS))
    if length >= FAR_ROWS:
        place = np.uint32(FAR_START + 3 * cuda.atomic.add(far_rows, FAR_RANGES, 1))
    if length > WARP:
        far_rows[place], far_rows[np.uint32(place + 1)], far_rows[np.uint32(place + 2)] = low, high, slot


@device
def d_write_rows(offsets, low, high, slot, far_rows):
    """Let the rows in (low, high] start at ``slot``; by one thread, which lists a long range.

    As ``d_list_ranges`` does, but with an atomic add each.
    """
    length = np.int64(high) - np.int64(low)
    if length <= WARP:
        row = np.uint64(high)
        while row != np.uint64(low):
            offsets[row] = slot
            row -= np.uint64(1)
    else:
        if length < FAR_ROWS:
            place = far_rows.shape[0] - 3 - 3 * cuda.atomic.add(far_rows, LONG_RANGES, 1)
        else:
            place = FAR_START + 3 * cuda.atomic.add(far_rows, FAR_RANGES, 1)
        far_rows[place], far_rows[place + 1], far_rows[place + 2] = low, high, slot


@device
def d_share_rows(offsets, low, high, slot):
    """Let the rows in each lane's (low, high] start at its ``slot``; neighbouring lanes write neighbouring rows."""
    count = np.int32(high - low)
    ends = d_scan_lanes(count)
    start, total, first = np.int32(ends - count), d_shuffle(ends, WARP - 1), np.int32(0)
    while first < total:  # the same in all lanes
        item = np.int32(first + d_lane())
        owner = d_find_owner(ends, item)
        row = d_shuffle(low, owner) + np.int64(item - d_shuffle(start, owner)) + 1
        begin = d_shuffle(slot, owner)
        if item < total:
            offsets[row] = begin
        first = np.int32(first + np.int32(WARP))


@device
def d_write_rows_by_warp(offsets, low, high, slot, far_rows):
    """Let the rows in (low, high] start at ``slot``; each lane has its own range, and lists a long one.

    Long ranges go to ``far_rows``, see ``d_list_ranges``.
    """
    if d_ballot(low != high) == 0:
        return
    is_own = high - low <= WARP
    if d_ballot(is_own and high - low > FEW_ROWS) != 0:
        d_share_rows(offsets, low, high if is_own else low, slot)
    elif is_own:
        for row in range(low + 1, high + 1):
            offsets[row] = slot
    d_list_ranges(far_rows, low, high, slot)


@device
def d_write_far_rows(offsets, far_rows, phase):
    """After a grid wait, write the ranges that were too long for a lane: a warp each, or all blocks together.

    ``phase``: the number of this wait on ``far_rows``, see ``d_sync_grid``.
    """
    d_sync_grid(far_rows, phase)
    for i in range(cuda.grid(1) >> 5, far_rows[LONG_RANGES], cuda.gridsize(1) >> 5):
        place = far_rows.shape[0] - 3 - 3 * i
        slot = far_rows[place + 2]
        for row in range(far_rows[place] + 1 + d_lane(), far_rows[place + 1] + 1, WARP):
            offsets[row] = slot
    for i in range(far_rows[FAR_RANGES]):
        place = FAR_START + 3 * i
        slot = far_rows[place + 2]
        for row in range(far_rows[place] + 1 + cuda.grid(1), far_rows[place + 1] + 1, cuda.gridsize(1)):
            offsets[row] = slot
