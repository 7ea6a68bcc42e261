"""Finding edges in two sorted runs on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.cpu.states import d_find_pair
from dynstore.host_compiler import njit
from dynstore.stores.paged.cpu import d_has_bit

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["find_edges"]


@njit(cache=True, nogil=True)
def k_search_runs(large_src, large_dst, valid, small_src, small_dst, src, dst, slots, places, there, totals):
    """Write where edges are in each run, and count them."""
    for i in range(src.shape[0]):
        u, v = src[i], dst[i]
        slot, place = d_find_pair(large_src, large_dst, u, v), d_find_pair(small_src, small_dst, u, v)
        in_large = slot < large_src.shape[0] and large_src[slot] == u and large_dst[slot] == v
        in_large = in_large and d_has_bit(valid[slot >> 5], slot & 31)
        in_small = place < small_src.shape[0] and small_src[place] == u and small_dst[place] == v
        slots[i], places[i], there[i] = slot if in_large else np.int64(-1), place, in_small
        totals[0] += in_large
        totals[1] += in_small
        totals[2] += (in_large or in_small) and u == v


def find_edges(
    runs: tuple[Array, ...], src: Array, dst: Array, slots: Array, places: Array, there: Array, totals: Array
) -> None:
    """Write where edges are.

    ``runs``: sources, destinations and bits of the large run; sources and destinations of the small one. ``slots``: in
    the large run, -1 for none; ``places``: in the small run, or where an edge would be; ``there``: whether it is in
    the small run. ``totals``, all 0 before: how many are in the large run, in the small run, and self-loops of these.
    """
    k_search_runs(*runs, src, dst, slots, places, there, totals)
