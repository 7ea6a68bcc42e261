"""PageRank's sums over in-edges by a warp: of a piece of a long row, or of 32 neighbouring rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.algorithms.rows.cuda.common import d_has_bit, d_read_once
from dynstore.algorithms.rows.cuda.rows import STEP_SLOTS, d_low_bits, d_read_words
from dynstore.cuda.compiler import cuda, device
from dynstore.cuda.warp import d_ballot, d_find_owner, d_lane, d_scan_lanes, d_shuffle, d_shuffle_up

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["CachedShares", "InRows", "d_sum_piece", "d_sum_rows"]

# log2 of the neighbouring slots of short rows that a lane takes at once, so that their loads overlap.
LANE_BITS = 2
LANE_SLOTS = 1 << LANE_BITS


class InRows(NamedTuple):
    """The rows of in-edges; ``weights`` is any array unless the graph is ``weighted``."""

    offsets: Array
    indices: Array
    valid: Array
    weights: Array
    weighted: Any


class CachedShares(NamedTuple):
    """The vertices' shares, and which of them the L1 cache keeps.

    Attributes
    ----------
    shares : array, shape (V + 1,)
        The last one is 0.
    below : int
        The L1 cache keeps the shares of vertices below it.
    zero : vertex dtype
        The place of the 0 behind the shares; its dtype is that of vertices, so that no index is wider.
    """

    shares: Array
    below: Any
    zero: Any


@device
def d_read_share(cached, vertex, live):
    """Return the share of a vertex, 0 if not live.

    It always makes two loads, as a branch between them would wait for one. The unused one reads the 0 behind the
    shares.
    """
    kept = vertex if live and vertex < cached.below else cached.zero
    once = cached.shares.dtype.type(0)
    if live and vertex >= cached.below:
        once = d_read_once(cached.shares, vertex)
    return cached.shares[np.uint64(kept)] + once


@device
def d_sum_shares(cached, vertices, live, weights):
    """Return the weighted float64 sum of the live ones of four vertices' shares; others may have any weight.

    ``vertices``, ``live`` and ``weights`` are tuples of four.
    """
    share0 = d_read_share(cached, vertices[0], live[0])
    share1 = d_read_share(cached, vertices[1], live[1])
    share2 = d_read_share(cached, vertices[2], live[2])
    share3 = d_read_share(cached, vertices[3], live[3])
    return (
        np.float64(share0) * np.float64(weights[0] if live[0] else 1)
        + np.float64(share1) * np.float64(weights[1] if live[1] else 1)
        + np.float64(share2) * np.float64(weights[2] if live[2] else 1)
        + np.float64(share3) * np.float64(weights[3] if live[3] else 1)
    )


@device
def d_sum_piece(edges, cached, base, first, last):
    """Return a lane's part of the sum over a piece: four slots at a time, so that their loads overlap."""
    total = 0.0
    indices, weights = edges.indices, edges.weights
    weight0 = weight1 = weight2 = weight3 = 1.0
    words = d_read_words(edges.valid, base, last)
    bit = d_low_bits(1 << d_lane())
    place0 = np.int32(d_lane())
    for step in range(0, (last >> 5) + 1, 4):  # the same in all lanes
        place1, place2, place3 = np.int32(place0 + 32), np.int32(place0 + 64), np.int32(place0 + 96)
        there0, there1 = min(max(place0, first), last), min(place1, last)
        there2, there3 = min(place2, last), min(place3, last)
        slot0, slot1 = np.uint64(base + there0), np.uint64(base + there1)
        slot2, slot3 = np.uint64(base + there2), np.uint64(base + there3)
        u0, u1 = d_read_once(indices, slot0), d_read_once(indices, slot1)
        u2, u3 = d_read_once(indices, slot2), d_read_once(indices, slot3)
        if edges.weighted:
            weight0, weight1 = np.float64(d_read_once(weights, slot0)), np.float64(d_read_once(weights, slot1))
            weight2, weight3 = np.float64(d_read_once(weights, slot2)), np.float64(d_read_once(weights, slot3))
        live0 = (there0 == place0) & ((d_shuffle(words, step) & bit) != 0)
        live1 = (there1 == place1) & ((d_shuffle(words, step + 1) & bit) != 0)
        live2 = (there2 == place2) & ((d_shuffle(words, step + 2) & bit) != 0)
        live3 = (there3 == place3) & ((d_shuffle(words, step + 3) & bit) != 0)
        total += d_sum_shares(
            cached, (u0, u1, u2, u3), (live0, live1, live2, live3), (weight0, weight1, weight2, weight3)
        )
        place0 = np.int32(place0 + STEP_SLOTS)
    return total


@device
def d_sum_tails(value, reach):
    """Return the float64 sum of ``value`` over this lane and the ``reach`` before; these reach no further back."""
    total = value
    for step in (1, 2, 4, 8, 16):
        other = d_shuffle_up(total, step)
        total += other if reach >= step else 0.0
    return total


@device
def d_choose(k, sum0, sum1, sum2, sum3):
    """Return sum number ``k`` of four; 0 if ``k`` is below 0."""
    chosen = sum0 if k == 0 else 0.0
    chosen = sum1 if k == 1 else chosen
    chosen = sum2 if k == 2 else chosen
    return sum3 if k == 3 else chosen


@device
def d_sum_rows(edges, cached, begin, length, is_long):
    """Return the sum over this lane's row, 0 if it is long. All lanes call it, with 32 neighbouring rows.

    The slots of these rows are contiguous. Each lane takes neighbouring slots of any row, so no warp waits for its
    longest row; slots of long rows are skipped. A lane keeps prefix sums of its own slots only, so a row without shares
    stays 0. The parts of the row of each lane's last slot are summed over the lanes. Then a row's lane reads the sum
    from the lane that has the row's last slot.
    """
    number, lane = edges.offsets.dtype.type, np.int32(d_lane())
    slots = cuda.local.array(LANE_SLOTS, edges.offsets.dtype)
    vertices = cuda.local.array(LANE_SLOTS, edges.indices.dtype)
    live, sums = cuda.local.array(LANE_SLOTS, np.bool_), cuda.local.array(LANE_SLOTS, np.float64)
    first, longs = d_shuffle(begin, 0), d_ballot(is_long)
    own = np.int32(0 if is_long else length)
    ends = d_scan_lanes(own)
    num_items = d_shuffle(ends, 31)
    total = 0.0
    done = np.int32(0)
    while done < num_items:  # the same in all lanes
        item = np.int32(done + LANE_SLOTS * lane)
        for k in range(LANE_SLOTS):
            slots[k] = number(first + min(np.int32(item + k), np.int32(num_items - 1)))
        others = longs
        while others != 0:  # the same in all lanes
            owner = 31 - cuda.clz(others)
            others = np.uint32(others ^ (np.uint32(1) << np.uint32(owner)))
            place, skipped = d_shuffle(ends, owner), d_shuffle(length, owner)
            for k in range(LANE_SLOTS):
                behind = min(np.int32(item + k), np.int32(num_items - 1)) >= place
                slots[k] = number(slots[k] + (skipped if behind else number(0)))
        for k in range(LANE_SLOTS):
            vertices[k] = edges.indices[np.uint64(slots[k])]
            live[k] = (np.int32(item + k) < num_items) & d_has_bit(edges.valid, slots[k])
            sums[k] = 1.0
            if edges.weighted:
                sums[k] = np.float64(edges.weights[np.uint64(slots[k])]) if live[k] else 0.0
        start = np.int32(ends - own)
        # Where the row of this lane's last slot begins, counted from this lane's first slot.
        tail = np.int32(d_shuffle(start, d_find_owner(ends, np.int32(item + LANE_SLOTS - 1))) - item)
        for k in range(LANE_SLOTS):
            sums[k] *= np.float64(d_read_share(cached, vertices[k], live[k]))
        for k in range(1, LANE_SLOTS):
            sums[k] += sums[k - 1]
        reach = np.int32(min(np.int32(LANE_SLOTS - 1 - tail) >> LANE_BITS, lane))
        tails = d_sum_tails(sums[3] - d_choose(np.int32(tail - 1), sums[0], sums[1], sums[2], 0.0), reach)
        last = np.int32(min(np.int32(ends - done), np.int32(32 * LANE_SLOTS)) - 1)
        holder = np.int32(last >> LANE_BITS)
        before = d_shuffle(tails, (holder - 1) & 31)
        own0, own1 = d_shuffle(sums[0], holder & 31), d_shuffle(sums[1], holder & 31)
        own2, own3 = d_shuffle(sums[2], holder & 31), d_shuffle(sums[3], holder & 31)
        begun = np.int32(start - done - (holder << LANE_BITS))  # counted from the holder's slots
        part = d_choose(last & (LANE_SLOTS - 1), own0, own1, own2, own3)
        part -= d_choose(np.int32(begun - 1), own0, own1, own2, 0.0)
        part += before if holder > 0 and begun < 0 else 0.0
        total += part if last >= max(np.int32(start - done), np.int32(0)) else 0.0
        done = np.int32(done + 32 * LANE_SLOTS)
    return total
