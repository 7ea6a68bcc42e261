"""Merging sorted edges into others on CUDA, and taking edges out: each output slot finds its source among a few keys.

A warp owns neighbouring slots, or row starts, and finds once which keys lie among them. In each step a lane has four
slots whose reads overlap. So everything is read and written once, in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import SIMULATED, cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle
from dynstore.stores.table.cuda.search import d_find_lower_bound

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.table.selection import Columns
    from dynstore.typing import Array

__all__ = ["merge_in", "merge_out", "shift_offsets"]

# Slots of a step, four a lane, and of a warp; row starts of a warp.
STEP = 128
TILE, ROWS = (2 * STEP, 64) if SIMULATED else (16 * STEP, 256)
# A place behind all slots of a step.
FAR = np.int32(2 * STEP)


@device
def d_count_below(places, low, high, limit, slope):
    """Count the ascending ``places[j] + slope * j`` not above ``limit``; the result is in ``low`` to ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if places[middle] + slope * middle <= limit:
            low = middle + 1
        else:
            high = middle
    return low


@device
def d_read_key(places, below, base, slope):
    """Return ``places[j] + slope * j`` of the lane's next key, relative to ``base``; FAR if behind the step."""
    j = below + d_lane()
    behind = np.int64(FAR)
    if j < places.shape[0]:
        behind = min(places[j] + slope * j - base, behind)
    return np.int32(behind)


@device
def d_rank_slot(places, below, key, num_keys, base, slot, slope):
    """Return the number of keys not above a slot of the step, and the place of the last, -1 if none is in the step.

    It uses the lanes' keys (``d_read_key``) if these are all keys of the step, else a search. All lanes call.
    """
    rank, last = np.int64(0), np.int32(-1)
    if num_keys < 32:
        count = np.int32(0)
        for other in range(num_keys):
            place = d_shuffle(key, other)
            if place <= slot:
                count += np.int32(1)
                last = place
        rank = below + count
    else:
        rank = d_count_below(places, below, np.int64(places.shape[0]), base + slot, slope)
        if rank > below:
            last = np.int32(places[rank - 1] + slope * (rank - 1) - base)
    return rank, last


@device
def d_rank_step(places, below, base, last, slope):
    """Return ``d_rank_slot`` of the lane's four slots, 32 apart, capped at ``last``; then the rank of the last."""
    end, lane = np.int32(min(last - base, np.int64(STEP - 1))), np.int32(d_lane())
    key = d_read_key(places, below, base, slope)
    num_keys = np.int32(cuda.popc(d_ballot(key <= end)))
    rank0, key0 = d_rank_slot(places, below, key, num_keys, base, min(lane, end), slope)
    rank1, key1 = d_rank_slot(places, below, key, num_keys, base, min(np.int32(lane + 32), end), slope)
    rank2, key2 = d_rank_slot(places, below, key, num_keys, base, min(np.int32(lane + 64), end), slope)
    rank3, key3 = d_rank_slot(places, below, key, num_keys, base, min(np.int32(lane + 96), end), slope)
    return rank0, key0, rank1, key1, rank2, key2, rank3, key3, d_shuffle(rank3, 31)


@device
def d_choose(slot, base, rank, key):
    """Return the old slot that goes to a slot; or, if an added key does, minus the number of added keys up to it."""
    return -rank if base + key == slot else slot - rank


@device
def d_take(old, added, origin):
    """Return the element that ``d_choose`` has chosen."""
    return added[-origin - 1] if origin < 0 else old[origin]


@device
def d_put(out, slot, first, second, third, fourth):
    """Write a lane's four elements to slots 32 apart; skip slots behind the end."""
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
        rank0, key0, rank1, key1, rank2, key2, rank3, key3, below = d_rank_step(places, below, base, last, 1)
        slot = base + d_lane()
        first, second = d_choose(min(slot, last), base, rank0, key0), d_choose(min(slot + 32, last), base, rank1, key1)
        third, fourth = (
            d_choose(min(slot + 64, last), base, rank2, key2),
            d_choose(min(slot + 96, last), base, rank3, key3),
        )
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


@kernel
def k_merge_out(src, dst, weights, places, out_src, out_dst, out_weights):
    """One warp owns a tile of output slots; each slot skips the dropped keys before it."""
    base, last = np.int64(cuda.grid(1) >> 5) * TILE, np.int64(out_src.shape[0]) - 1
    end = min(base + TILE, last + 1)
    below = d_count_below(places, np.int64(0), np.int64(places.shape[0]), base - 1, -1)
    while base < end:
        first, _, second, _, third, _, fourth, _, below = d_rank_step(places, below, base, last, -1)
        slot = base + d_lane()
        first += min(slot, last)
        second += min(slot + 32, last)
        third += min(slot + 64, last)
        fourth += min(slot + 96, last)
        row0, row1, row2, row3 = src[first], src[second], src[third], src[fourth]
        column0, column1, column2, column3 = dst[first], dst[second], dst[third], dst[fourth]
        d_put(out_src, slot, row0, row1, row2, row3)
        d_put(out_dst, slot, column0, column1, column2, column3)
        if out_weights.shape[0] > 0:
            d_put(out_weights, slot, weights[first], weights[second], weights[third], weights[fourth])
        base += STEP


@kernel
def k_shift_offsets(old, rows, step, out):
    """One warp owns some row starts: shift each by ``step`` for every changed key in the rows before it."""
    first, count = np.int64(cuda.grid(1) >> 5) * ROWS, np.int64(out.shape[0])
    end, num_rows = min(first + ROWS, count), np.int64(rows.shape[0])
    if first < end:
        below = d_find_lower_bound(rows, np.int64(0), num_rows, first)
        bound = d_find_lower_bound(rows, below, num_rows, end - 1)
        for row in range(first + d_lane(), end, 32):
            start = np.int64(old[row]) if old.shape[0] > 0 else np.int64(0)
            out[row] = start + step * d_find_lower_bound(rows, below, bound, row)


def merge_in(backend: Backend, old: Columns, added: Columns, places: Array, out: Columns) -> None:
    """Write old and added edges to ``out``, packed; ``places``: the slots of ``old`` that the added ones go before."""
    nothing = (backend.nothing(out[0].dtype),) * 3
    weights = nothing if out[2] is None else (old[2], added[2], out[2])
    k_merge_in.launch_warps(
        -(-out[0].shape[0] // TILE), *old[:2], weights[0], places, *added[:2], weights[1], *out[:2], weights[2]
    )


def merge_out(backend: Backend, old: Columns, places: Array, out: Columns) -> None:
    """Write the old edges except those at ``places`` (ascending slots) to ``out``, all packed."""
    nothing = (backend.nothing(out[0].dtype),) * 2
    weights = nothing if out[2] is None else (old[2], out[2])
    k_merge_out.launch_warps(-(-out[0].shape[0] // TILE), *old[:2], weights[0], places, *out[:2], weights[1])


def shift_offsets(old: Array, rows: Array, step: int, out: Array) -> None:
    """Write where rows begin after edges in ``rows`` (ascending) came (``step`` 1) or left (-1).

    ``old``: where they began, of the shape of ``out``; empty if there were no edges.
    """
    k_shift_offsets.launch_warps(-(-out.shape[0] // ROWS), old, rows, step, out)
