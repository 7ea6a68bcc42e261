"""Finding edges in two sorted runs on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_lane
from dynstore.stores.table.cuda.search import d_test_bit

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["find_edges"]


@device
def d_find_pair(src, dst, row, column):
    """Return where an edge is in a sorted run, or would be."""
    low, high = np.int64(0), np.int64(src.shape[0])
    while low < high:
        middle = (low + high) >> 1
        other = src[middle]
        if other < row or (other == row and dst[middle] < column):
            low = middle + 1
        else:
            high = middle
    return low


@device
def d_is_at(src, dst, place, row, column):
    """Return whether a place of a run holds an edge."""
    return place < src.shape[0] and src[place] == row and dst[place] == column


@device
def d_count(totals, place, vote):
    """Add the number of lanes that vote to a total; at most one atomic add a warp. All lanes call."""
    votes = d_ballot(vote)
    if d_lane() == 0 and votes != 0:
        cuda.atomic.add(totals, place, np.int64(cuda.popc(np.uint32(votes))))


@kernel
def k_search_runs(large_src, large_dst, valid, small_src, small_dst, src, dst, slots, places, there, totals):
    """One thread an edge: write where it is in each run; count those that are there."""
    i = int(cuda.grid(1))
    in_large, in_small, is_loop = False, False, False
    if i < src.shape[0]:
        row, column = src[i], dst[i]
        slot = d_find_pair(large_src, large_dst, row, column)
        place = d_find_pair(small_src, small_dst, row, column)
        in_large = d_is_at(large_src, large_dst, slot, row, column) and d_test_bit(valid, slot)
        in_small = d_is_at(small_src, small_dst, place, row, column)
        is_loop = row == column and (in_large or in_small)
        slots[i], places[i], there[i] = slot if in_large else np.int64(-1), place, in_small
    d_count(totals, 0, in_large)
    d_count(totals, 1, in_small)
    d_count(totals, 2, is_loop)


def find_edges(
    runs: tuple[Array, ...], src: Array, dst: Array, slots: Array, places: Array, there: Array, totals: Array
) -> None:
    """Write where edges are; see the host's ``find_edges``."""
    k_search_runs.launch(src.shape[0], *runs, src, dst, slots, places, there, totals)
