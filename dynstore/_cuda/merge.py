"""Merging a sorted batch into a packed table on CUDA: every output slot finds its own source, among few keys.

A warp owns some neighbouring slots, or row starts, and finds once which keys lie among them; in each step of it, a lane
has four slots whose reads wait together. So all is read and written once, in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import SIMULATED, cuda, device, kernel
from dynstore._cuda.search import d_find_lower_bound
from dynstore._cuda.warp import d_ballot, d_lane

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.edge_batch import EdgeBatch
    from dynstore.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["merge_in", "merge_out"]

# Slots of a step, four a lane, and of a warp; row starts of a warp.
STEP = 128
TILE = 2 * STEP if SIMULATED else 16 * STEP


@device
def d_count_below(places, low, high, limit, slope):
    """Count the ascending ``places[j] + slope * j`` that are not above ``limit``, of which ``low`` to ``high`` are."""
    while low < high:
        middle = (low + high) >> 1
        if places[middle] + slope * middle <= limit:
            low = middle + 1
        else:
            high = middle
    return low


@device
def d_bound_keys(places, below, last, slope):
    """Return an upper bound of ``d_count_below`` up to a slot ``last``, of which ``below`` are known to count.

    The very count where it is at most 31 more; all lanes of the warp call.
    """
    j, count = below + d_lane(), np.int64(places.shape[0])
    more = np.int64(cuda.popc(d_ballot(j < count and places[j] + slope * j <= last)))
    return below + more if more < 32 else count


@device
def d_find_origin(places, below, bound, slot):
    """Return the old slot that a slot shows, or minus the added keys up to it if it shows the last of these."""
    rank = d_count_below(places, below, bound, slot, 1)
    if rank > below and places[rank - 1] + rank - 1 == slot:
        return -rank
    return slot - rank


@device
def d_take(old, added, origin):
    """Return the element that ``d_find_origin`` has found."""
    return added[-origin - 1] if origin < 0 else old[origin]


@device
def d_put(out, slot, first, second, third, fourth):
    """Write a lane's four elements, of slots 32 apart; those behind the end are left out."""
    count = out.shape[0]
    if slot < count:
        out[slot] = first
    if slot + 32 < count:
        out[slot + 32] = second
    if slot + 64 < count:
        out[slot + 64] = third
    if slot + 96 < count:
        out[slot + 96] = fourth


@kernel
def k_merge_in(src, dst, weights, places, new_src, new_dst, new_weights, out_src, out_dst, out_weights):
    """One warp owns a tile of output slots: the j-th added key goes to ``places[j] + j``."""
    base, last = np.int64(cuda.grid(1) >> 5) * TILE, np.int64(out_src.shape[0]) - 1
    end = min(base + TILE, last + 1)
    below = d_count_below(places, np.int64(0), np.int64(places.shape[0]), base - 1, 1)
    while base < end:
        bound, slot = d_bound_keys(places, below, base + STEP - 1, 1), base + d_lane()
        first = d_find_origin(places, below, bound, min(slot, last))
        second = d_find_origin(places, below, bound, min(slot + 32, last))
        third = d_find_origin(places, below, bound, min(slot + 64, last))
        fourth = d_find_origin(places, below, bound, min(slot + 96, last))
        row0, column0 = d_take(src, new_src, first), d_take(dst, new_dst, first)
        row1, column1 = d_take(src, new_src, second), d_take(dst, new_dst, second)
        row2, column2 = d_take(src, new_src, third), d_take(dst, new_dst, third)
        row3, column3 = d_take(src, new_src, fourth), d_take(dst, new_dst, fourth)
        d_put(out_src, slot, row0, row1, row2, row3)
        d_put(out_dst, slot, column0, column1, column2, column3)
        if out_weights.shape[0] > 0:
            weight0, weight1 = d_take(weights, new_weights, first), d_take(weights, new_weights, second)
            weight2, weight3 = d_take(weights, new_weights, third), d_take(weights, new_weights, fourth)
            d_put(out_weights, slot, weight0, weight1, weight2, weight3)
        base += STEP
        below = d_count_below(places, below, bound, base - 1, 1)


@kernel
def k_merge_out(src, dst, weights, places, out_src, out_dst, out_weights):
    """One warp owns a tile of output slots, each of which skips the dropped keys before it."""
    base, last = np.int64(cuda.grid(1) >> 5) * TILE, np.int64(out_src.shape[0]) - 1
    end = min(base + TILE, last + 1)
    below = d_count_below(places, np.int64(0), np.int64(places.shape[0]), base - 1, -1)
    while base < end:
        bound, slot = d_bound_keys(places, below, base + STEP - 1, -1), base + d_lane()
        first, second, third, fourth = min(slot, last), min(slot + 32, last), min(slot + 64, last), min(slot + 96, last)
        first += d_count_below(places, below, bound, first, -1)
        second += d_count_below(places, below, bound, second, -1)
        third += d_count_below(places, below, bound, third, -1)
        fourth += d_count_below(places, below, bound, fourth, -1)
        row0, row1, row2, row3 = src[first], src[second], src[third], src[fourth]
        column0, column1, column2, column3 = dst[first], dst[second], dst[third], dst[fourth]
        d_put(out_src, slot, row0, row1, row2, row3)
        d_put(out_dst, slot, column0, column1, column2, column3)
        if out_weights.shape[0] > 0:
            d_put(out_weights, slot, weights[first], weights[second], weights[third], weights[fourth])
        base += STEP
        below = d_count_below(places, below, bound, base - 1, -1)


@kernel
def k_shift_offsets(old, rows, step, out):
    """One warp owns a tile of row starts: each moves by ``step`` for every changed key in the rows before it."""
    first, count = np.int64(cuda.grid(1) >> 5) * TILE, np.int64(out.shape[0])
    end, num_rows = min(first + TILE, count), np.int64(rows.shape[0])
    if first < end:
        below = d_find_lower_bound(rows, np.int64(0), num_rows, first)
        bound = d_find_lower_bound(rows, below, num_rows, end - 1)
        for row in range(first + d_lane(), end, 32):
            out[row] = np.int64(old[row]) + step * d_find_lower_bound(rows, below, bound, row)


def merge_in(backend: Backend, old: SlotArrays, added: EdgeBatch, places: Array, out: SlotArrays) -> None:
    """Write the old edges and the added ones to ``out``; ``places``: slots of ``old`` that they go before."""
    nothing = backend.nothing(out.src.dtype)
    weights = (nothing, nothing, nothing) if out.weights is None else (old.weights, added.weights, out.weights)
    k_merge_in.launch_warps(
        -(-out.num_slots // TILE),
        old.src, old.dst, weights[0], places, added.src, added.dst, weights[1], out.src, out.dst, weights[2],
    )  # fmt: skip
    k_shift_offsets.launch_warps(-(-(out.num_vertices + 1) // TILE), old.offsets, added.src, 1, out.offsets)


def merge_out(backend: Backend, old: SlotArrays, rows: Array, places: Array, out: SlotArrays) -> None:
    """Write the old edges less those at ``places`` (ascending slots, in ``rows``) to ``out``."""
    nothing = backend.nothing(out.src.dtype)
    weights = (nothing, nothing) if out.weights is None else (old.weights, out.weights)
    k_merge_out.launch_warps(
        -(-out.num_slots // TILE), old.src, old.dst, weights[0], places, out.src, out.dst, weights[1]
    )
    k_shift_offsets.launch_warps(-(-(out.num_vertices + 1) // TILE), old.offsets, rows, -1, out.offsets)
