"""Finding edges in two sorted runs on the host, and listing those that are new."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.cpu.states import d_find_pair
from dynstore.host_compiler import njit
from dynstore.stores.paged.cpu import d_has_bit

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["search_runs"]


@njit(cache=True, nogil=True)
def k_search_runs(
    large_src, large_dst, valid, small_src, small_dst, src, dst, elsewhere, takes_large, slots, places, there,
    new_src, new_dst, new_places, rows, totals,
):  # fmt: skip
    """Write where edges are in each run, count them, and list new ones."""
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
        if new_src.shape[0] == 0:
            continue
        to = totals[3]
        places[i] += to
        if not in_small and (takes_large or not in_large) and (elsewhere.shape[0] == 0 or elsewhere[i] < 0):
            new_src[to], new_dst[to], new_places[to] = u, v, place
            if rows.shape[0] > 0:
                rows[to] = i
            totals[3] += 1


def search_runs(
    backend: Backend,
    runs: tuple[Array, ...],
    edges: tuple[Array, Array],
    found: tuple[Array, Array, Array],
    listed: tuple[Array, Array, Array, Array],
    elsewhere: Array,
    takes_large: bool,
) -> list[int]:
    """Write where edges are, and list new ones.

    Parameters
    ----------
    runs : tuple of array
        Sources, destinations and bits of the large run; sources and destinations of the small one.
    edges : tuple of array, shape (B,)
        Sources and destinations.
    found : tuple of array, shape (B,)
        Written. Slots in the large run, -1 for none; places in the small run, or where an edge would be; whether it is
        in the small run. If new edges are listed, the places are those after these were merged into the small run.
    listed : tuple of array, shape (B,)
        Written, unless they are empty: sources, destinations and places of the new edges; their numbers, if that is
        not empty.
    elsewhere : array, shape (B,), int64
        Edges with numbers of at least 0 are not new; empty for none.
    takes_large : bool
        Whether edges of the large run are new, too.

    Returns
    -------
    list of int
        How many are in the large run, in the small run, self-loops of these, and new.
    """
    totals = np.zeros(4, np.int64)
    k_search_runs(*runs, *edges, elsewhere, takes_large, *found, *listed, totals)
    return totals.tolist()
