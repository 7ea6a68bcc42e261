"""Triangle counting on the GPU."""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import SIMULATED, cuda, device, kernel
from dynstore._cuda.warp import d_ballot, d_lane, d_shuffle
from dynstore.algorithms._cuda._common import d_count_bits
from dynstore.algorithms._cuda.orientation import orient_edges

if TYPE_CHECKING:
    from dynstore.algorithms._cuda.orientation import Arcs
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["count_triangles"]

# Vertices whose arcs are also kept as bits. At the most they take 256 MiB.
MAX_HUBS = 8 if SIMULATED else 1 << 16


@device
def d_locate_bits(hub):
    """Return the first word of a hub's row in the triangle of bits: row ``r`` has one for each rank up to ``r``."""
    words = np.uint32((hub >> 5) + 1)
    return np.uint32(words * np.uint32(16 * (words - 1) + (hub & 31)))


@device
def d_read(array, place):
    """Return an item. An unsigned place saves the instructions that make negative ones count from the end."""
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
def d_max_lanes(value):
    """Return the largest value of the warp's lanes, in every lane."""
    lane = d_lane()
    for step in (16, 8, 4, 2, 1):
        value = max(value, d_shuffle(value, lane ^ step))
    return value


@device
def d_add_hits(counts, vertex, hits):
    """Add the set bits of ``hits`` to the vertex's count (atomic), and return their number."""
    num_hits = d_count_bits(hits)
    if num_hits > 0:
        cuda.atomic.add(counts, vertex, num_hits)
    return num_hits


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
def k_count_triangles(starts, tails, heads, num_hubs, hub_bits, counts):
    """One warp 32 arcs, a lane each: look for an arc from each later head of the arc's row to the head of the arc.

    The lanes of a row go through its heads together, from the last one down, so they read one row of bits (hubs, four
    heads at a time) or search one row of arcs. Hits are counted for the arc's head in a register, for the others by
    ballots; atomic adds: one for each of the heads gone through, and at the end one a lane and one a row.
    Most variables have 32 bits, which is half the instructions.
    """
    arc = int(cuda.grid(1))
    lane = d_lane()
    base = arc - lane
    tail = 0
    low = np.int32(0)
    begin = 0
    end = 0
    num_near = 0  # heads from this arc's on that are hubs; they come first
    if arc < heads.shape[0]:
        tail = int(d_read(tails, arc))
        low = np.int32(d_read(heads, arc))
        begin = int(d_read(starts, tail))
        end = int(d_read(starts, tail + 1))
        num_near = d_lower_bound(heads, arc, end - arc, num_hubs)
    else:
        arc = 0
    first = max(begin - base, 0)  # the lanes of this row: [first, last)
    last = min(end - base, 32)
    mine = np.uint32((1 << last) - (1 << first)) if first < last else np.uint32(0)
    leads = lane == first
    at_low = np.uint32(0)
    at_tail = np.uint32(0)

    column = np.uint32(0)
    bit = np.uint32(0)
    if num_near > 1:
        column = np.uint32(low >> 5)
        bit = np.uint32(1 << (low & 31))
    left = np.int32(num_near - 1)
    last_hub = np.uint32(num_hubs - 1)
    for _ in range(0, d_max_lanes(num_near - 1), 4):
        # Past its last head a lane reads the row of its arc's head, which has no bit for that head itself.
        high0 = min(np.uint32(d_read(heads, arc + max(left, np.int32(0)))), last_hub)
        high1 = min(np.uint32(d_read(heads, arc + max(np.int32(left - 1), np.int32(0)))), last_hub)
        high2 = min(np.uint32(d_read(heads, arc + max(np.int32(left - 2), np.int32(0)))), last_hub)
        high3 = min(np.uint32(d_read(heads, arc + max(np.int32(left - 3), np.int32(0)))), last_hub)
        left = np.int32(left - 4)
        hit0 = (d_read(hub_bits, np.uint32(d_locate_bits(high0) + column)) & bit) != 0
        hit1 = (d_read(hub_bits, np.uint32(d_locate_bits(high1) + column)) & bit) != 0
        hit2 = (d_read(hub_bits, np.uint32(d_locate_bits(high2) + column)) & bit) != 0
        hit3 = (d_read(hub_bits, np.uint32(d_locate_bits(high3) + column)) & bit) != 0
        at_low = np.uint32(at_low + int(hit0) + int(hit1) + int(hit2) + int(hit3))
        hits0 = np.uint32(d_ballot(hit0) & mine)
        hits1 = np.uint32(d_ballot(hit1) & mine)
        hits2 = np.uint32(d_ballot(hit2) & mine)
        hits3 = np.uint32(d_ballot(hit3) & mine)
        if leads:
            added = d_add_hits(counts, high0, hits0) + d_add_hits(counts, high1, hits1)
            added += d_add_hits(counts, high2, hits2) + d_add_hits(counts, high3, hits3)
            at_tail = np.uint32(at_tail + added)

    num_far = end - arc - max(num_near, 1)
    place = end
    for step in range(d_max_lanes(num_far)):
        place -= 1
        hit = False
        high = np.uint32(0)
        if step < num_far:
            high = np.uint32(d_read(heads, place))
            row = int(d_read(starts, high))
            length = int(d_read(starts, np.uint32(high + 1))) - row
            below = d_lower_bound(heads, row, length, low)
            hit = below < length and d_read(heads, row + below) == low
        at_low = np.uint32(at_low + int(hit))
        hits = np.uint32(d_ballot(hit) & mine)
        if leads:
            at_tail = np.uint32(at_tail + d_add_hits(counts, high, hits))

    if at_low > 0:
        cuda.atomic.add(counts, low, int(at_low))
    if at_tail > 0:
        cuda.atomic.add(counts, tail, int(at_tail))


def mark_hubs(arcs: Arcs, csr: GapCSR) -> tuple[int, Array]:
    """Keep the arcs of the highest ranks as bits, in no more memory than that of all heads.

    Returns
    -------
    num_hubs : int
    hub_bits : array, uint32
        As :func:`d_locate_bits` has it.
    """
    num_arcs = arcs.heads.shape[0]
    num_hubs = min(csr.num_vertices, MAX_HUBS, max(1, isqrt(64 * num_arcs)))
    words, rest = (num_hubs >> 5) + 1, num_hubs & 31
    hub_bits = csr.backend.zeros(words * (16 * (words - 1) + rest), np.uint32)
    k_mark_hub_arcs.launch(num_arcs, arcs.tails, arcs.heads, num_hubs, hub_bits)
    return num_hubs, hub_bits


def count_triangles(csr: GapCSR) -> Array:
    """Count the triangles at each vertex.

    The *forward* algorithm of Schank and Wagner, "Finding, Counting and Listing All Triangles in Large Graphs, An
    Experimental Study", WEA 2005, section 3, on the edges that point from the lower to the higher (degree, id): every
    triangle is found once, as an arc between two heads of a row, and no row is longer than sqrt(2 E). Arcs of hubs are
    looked up as bits, as in Bisson and Fatica, "High Performance Exact Triangle Counting on GPUs", IEEE TPDS 28(12),
    2017; other arcs by binary search, as in Hu, Liu and Huang, "TriCore: Parallel Triangle Counting on GPUs", SC'18,
    section 4.

    Parameters
    ----------
    csr : GapCSR
        A symmetric graph; self-loops are ignored.

    Returns
    -------
    array, shape (V,), vertex dtype
        Every triangle counts at its three corners.

    Raises
    ------
    LimitError
        For more than 2^31 vertices.
    """
    backend, dtype = csr.backend, csr.offsets.dtype
    if csr.num_edges == 0:
        return backend.zeros(csr.num_vertices, dtype)
    arcs = orient_edges(csr)
    counts = backend.zeros(csr.num_vertices, dtype)  # by rank
    num_hubs, hub_bits = mark_hubs(arcs, csr)
    k_count_triangles.launch(arcs.heads.shape[0], arcs.starts, arcs.tails, arcs.heads, num_hubs, hub_bits, counts)
    return counts[arcs.ranks]
