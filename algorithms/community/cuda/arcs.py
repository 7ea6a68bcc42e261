"""Counting the triangles of oriented edges on the GPU."""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.rows.cuda.common import d_count_bits
from dynstore.cuda.compiler import SIMULATED, cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_lane, d_max_lanes, d_shuffle, d_sum_lanes

if TYPE_CHECKING:
    from dynstore.algorithms.community.cuda.orientation import Arcs
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["count_arc_triangles"]

# Vertices whose arcs are also kept as bits; these take at most 256 MiB.
MAX_HUBS = 8 if SIMULATED else 1 << 16


@device
def d_locate_bits(hub):
    """Return the first word of a hub's row in the triangle of bits: row ``r`` has a bit for each rank up to ``r``."""
    words = np.uint32((hub >> 5) + 1)
    return np.uint32(words * np.uint32(16 * (words - 1) + (hub & 31)))


@device
def d_read(array, place):
    """Return an item. An unsigned index saves the instructions that handle negative ones."""
    return array[np.uint64(place)]


@device
def d_lower_bound(heads, begin, length, wanted):
    """Return how many of the ascending ``heads[begin : begin + length]`` are below ``wanted`` (int32)."""
    low = np.uint32(0)
    high = np.uint32(length)
    while low < high:
        middle = np.uint32((low + high) >> 1)
        if d_read(heads, begin + middle) < wanted:
            low = np.uint32(middle + 1)
        else:
            high = middle
    return int(low)


@device
def d_has_arc(starts, heads, num_hubs, hub_bits, high, low):
    """Whether there is an arc from ``high`` to ``low``, a lower rank: by its bit for a hub, else by a search."""
    if high < num_hubs:
        word = d_read(hub_bits, np.uint32(d_locate_bits(high) + np.uint32(low >> 5)))
        return word & np.uint32(1 << (low & 31)) != 0
    row = int(d_read(starts, high))
    length = int(d_read(starts, np.uint32(high + 1))) - row
    below = d_lower_bound(heads, row, length, low)
    return below < length and d_read(heads, row + below) == low


@device
def d_count_hub_hits(heads, hub_bits, counts, origin, length, offset, low):
    """Look for arcs to each lane's ``low`` from the hubs of one row, ``heads[origin + 1 : origin + length]``.

    It goes from the last hub down, 32 at a time: each lane locates the bits of one hub, and all lanes read them. All
    lanes call it. A lane's arc is at ``origin + offset``; it takes part only if ``0 <= offset < length``. Atomic adds:
    one for each hub. Returns the hits of this lane's arc, and those of the hubs that it located.
    """
    lane = np.int32(d_lane())
    column = np.uint32(0)
    bit = np.uint32(0)
    if 0 <= offset < length:
        column = np.uint32(low >> 5)
        bit = np.uint32(1 << (low & 31))
    at_low = np.uint32(0)
    at_hubs = np.uint32(0)
    for left in range(length - 1, 0, -32):
        mine = left - lane
        high = np.uint32(0)
        row = np.int32(0)
        if mine > 0:
            high = np.uint32(d_read(heads, origin + mine))
            row = np.int32(d_locate_bits(high))
        hits = np.uint32(0)
        still = np.int32(left - offset)  # remaining hubs behind this lane's arc
        # The compiler must not unroll this loop: then two loads would overlap, not four.
        turn = np.int32(0)
        while turn < left and turn < 32:
            word0 = d_read(hub_bits, np.uint32(d_shuffle(row, turn) + column))
            word1 = d_read(hub_bits, np.uint32(d_shuffle(row, turn + 1) + column))
            word2 = d_read(hub_bits, np.uint32(d_shuffle(row, turn + 2) + column))
            word3 = d_read(hub_bits, np.uint32(d_shuffle(row, turn + 3) + column))
            hit0 = np.uint32(word0 & bit) != 0 and still > 0
            hit1 = np.uint32(word1 & bit) != 0 and still > 1
            hit2 = np.uint32(word2 & bit) != 0 and still > 2
            hit3 = np.uint32(word3 & bit) != 0 and still > 3
            still = np.int32(still - 4)
            at_low = np.uint32(at_low + int(hit0) + int(hit1) + int(hit2) + int(hit3))
            hits0 = d_ballot(hit0)
            hits1 = d_ballot(hit1)
            hits2 = d_ballot(hit2)
            hits3 = d_ballot(hit3)
            ahead = np.int32(lane - turn)
            if ahead == 0:
                hits = hits0
            if ahead == 1:
                hits = hits1
            if ahead == 2:
                hits = hits2
            if ahead == 3:
                hits = hits3
            turn = np.int32(turn + 4)
        if hits != 0:
            num_hits = d_count_bits(hits)
            cuda.atomic.add(counts, high, num_hits)
            at_hubs = np.uint32(at_hubs + num_hits)
    return at_low, at_hubs


@kernel
def k_mark_hub_arcs(tails, heads, num_hubs, hub_bits):
    """One thread an arc: if its tail is a hub, set its bit (atomic or)."""
    arc = int(cuda.grid(1))
    if arc < tails.shape[0]:
        tail = int(tails[arc])
        if tail < num_hubs:
            head = int(heads[arc])
            cuda.atomic.or_(hub_bits, d_locate_bits(tail) + (head >> 5), np.uint32(1 << (head & 31)))


@kernel
def k_count_triangles(starts, tails, heads, closing_starts, closing_heads, num_hubs, hub_bits, counts):
    """One warp 32 arcs, a lane each: look for an arc from each later head of the arc's row to the head of the arc.

    That arc is looked for among others, ``closing_starts``, ``closing_heads`` and ``hub_bits``; they may be the same.
    The lanes of a row visit its heads together, from the last one down. So they read one row of bits, or search one row
    of arcs. Only the warp's last row may be long; its hubs take :func:`d_count_hub_hits`. Hits are counted in a
    register for the arc's head, by ballots for the others. Atomic adds: one for each visited head, and two a lane at
    the end. Most variables have 32 bits: half the instructions.
    """
    arc = int(cuda.grid(1))
    lane = d_lane()
    base = arc - lane
    tail = 0
    low = np.int32(0)
    begin = 0
    end = 0
    if arc < heads.shape[0]:
        tail = int(d_read(tails, arc))
        low = np.int32(d_read(heads, arc))
        begin = int(d_read(starts, tail))
        end = int(d_read(starts, tail + 1))
    first = max(begin - base, 0)  # the lanes of this row: [first, last)
    last = min(end - base, 32)
    mine = np.uint32((1 << last) - (1 << first)) if first < last else np.uint32(0)

    last_begin = d_shuffle(begin, 31)
    last_end = d_shuffle(end, 31)
    origin = max(base, last_begin)  # origin of the last row
    num_near = d_lower_bound(heads, origin, max(last_end - origin, 0), num_hubs)
    at_low, at_hubs = d_count_hub_hits(heads, hub_bits, counts, origin, num_near, base + lane - origin, low)
    at_last_tail = d_sum_lanes(np.int64(at_hubs))
    at_tail = at_last_tail if lane == 31 else 0

    left = end - arc - 1
    if end == last_end:
        left = min(left, end - origin - num_near)
    place = end
    for step in range(d_max_lanes(left)):
        place -= 1
        high = np.uint32(0)
        hit = False
        if step < left:
            high = np.uint32(d_read(heads, place))
            hit = d_has_arc(closing_starts, closing_heads, num_hubs, hub_bits, high, low)
        at_low = np.uint32(at_low + int(hit))
        hits = np.uint32(d_ballot(hit) & mine)
        if lane == first and hits != 0:
            num_hits = d_count_bits(hits)
            cuda.atomic.add(counts, high, num_hits)
            at_tail += num_hits

    if at_low > 0:
        cuda.atomic.add(counts, low, int(at_low))
    if at_tail > 0:
        cuda.atomic.add(counts, tail, at_tail)


def _mark_hubs(backend: Backend, arcs: Arcs) -> tuple[int, Array]:
    """Store the arcs of the hubs as bits, in at most the memory of all heads.

    Returns
    -------
    num_hubs : int
    hub_bits : array, uint32
        In the layout of :func:`d_locate_bits`.
    """
    num_arcs = arcs.heads.shape[0]
    num_hubs = min(arcs.ranks.shape[0], MAX_HUBS, max(1, isqrt(64 * num_arcs)))
    words, rest = (num_hubs >> 5) + 1, num_hubs & 31
    hub_bits = backend.zeros(words * (16 * (words - 1) + rest), np.uint32)
    k_mark_hub_arcs.launch(num_arcs, arcs.tails, arcs.heads, num_hubs, hub_bits)
    return num_hubs, hub_bits


def count_arc_triangles(backend: Backend, arcs: Arcs, dtype: np.dtype, closing: Arcs | None = None) -> Array:
    """Count the triangles at each vertex from the oriented edges.

    ``closing``: among which the third edge of a triangle is looked for, under the same ranks; by default the same.
    """
    closing = arcs if closing is None else closing
    counts = backend.zeros(arcs.ranks.shape[0], dtype)  # by rank
    hubs = _mark_hubs(backend, closing)
    given = (arcs.starts, arcs.tails, arcs.heads, closing.starts, closing.heads)
    k_count_triangles.launch(arcs.heads.shape[0], *given, *hubs, counts)
    return counts[arcs.ranks]
